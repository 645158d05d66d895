"""A scripted engine with paced chunks: what a proxy costs is measured against it, and nothing about an engine.

It runs as a process of its own (``python -m firstword.bench.gateway.upstream``), prints its port, and answers
what the gateway asks of an engine before it calls it ready.
"""

import asyncio
import base64
import json
import sys
import time
from typing import Any

from firstword.acceptance.recording import vowels
from firstword.bench.gateway import chunks

MODEL = "qwen3-tts-customvoice-synthetic"
# What a request says begins so, and then how many chunks it is to get and the seconds between two of them.
ORDER = "bench"
_WAV_HEADER = 44


async def serve() -> None:
    """Serve until the input ends."""
    server = await asyncio.start_server(_connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await _request(reader, writer):
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return whether the connection may carry another."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    asked = time.monotonic_ns()
    path = head[0].split(" ")[1]
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = json.loads(await reader.readexactly(int(fields.get("content-length", "0"))) or b"{}")
    if path != "/v1/audio/speech":
        _whole(writer, *_page(path))
    else:
        await _speak(writer, body, asked)
    return fields.get("connection", "").lower() != "close"


def _page(path: str) -> tuple[str, bytes]:
    if path == "/v1/models":
        return "application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()
    if path == "/metrics":
        return "text/plain", b"process_start_time_seconds 1000\nvllm_omni:num_requests_running 0\n"
    if path.startswith("/v1/audio/voices"):
        return "application/json", b'{"voices": ["ryan"]}'
    return "application/json", b"{}"


async def _speak(writer: asyncio.StreamWriter, body: dict[str, Any], asked: int) -> None:
    order = str(body.get("input", "")).split()
    events = body.get("stream_format") == "sse"
    if order[:1] != [ORDER]:
        # The gateway's readiness: judged speech of about three seconds.
        sound = vowels(3.0)[_WAV_HEADER:]
        if body.get("stream_format") is None:
            _whole(writer, "audio/wav", vowels(3.0))
            return
        _begin(writer, events)
        _send(writer, events, sound)
    else:
        count, period = int(order[1]), float(order[2])
        _begin(writer, events)
        began = time.monotonic()
        for number in range(count):
            if period and (wait := began + number * period - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            _send(writer, events, chunks.made(number, asked, _SOUND))
            await writer.drain()
    if events:
        done = {"type": "speech.audio.done", "usage": {"output_tokens": 1}}
        _chunk(writer, f"event: speech.audio.done\ndata: {json.dumps(done)}\n\n".encode())
    writer.write(b"0\r\n\r\n")


def _begin(writer: asyncio.StreamWriter, events: bool) -> None:
    kind = "text/event-stream" if events else "audio/pcm"
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode())


def _send(writer: asyncio.StreamWriter, events: bool, sound: bytes) -> None:
    if events:
        delta = {"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()}
        sound = f"event: speech.audio.delta\ndata: {json.dumps(delta)}\n\n".encode()
    _chunk(writer, sound)


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _whole(writer: asyncio.StreamWriter, kind: str, data: bytes) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)


_SOUND = vowels(1.0)[_WAV_HEADER : _WAV_HEADER + chunks.SIZE]

if __name__ == "__main__":
    asyncio.run(serve())
