"""Clients that leave in the middle, and what an engine keeps of them."""

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from websockets.sync.client import connect

SESSIONS = "/v1/audio/speech/stream"
SEGMENTS = Path("/dev/shm")
SECONDS = 20  # for everything to be gone


def leave(engine, path, body, seconds):
    """Send a request and drop the connection after so many seconds, whatever has come of the answer."""
    if path == SESSIONS:
        leave_session(engine, body, seconds)
        return
    text = json.dumps({"model": engine.model, **body}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as connection:
        connection.sendall(head.encode() + text)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                return


def leave_session(engine, config, seconds):
    """Ask for speech through a WebSocket and drop it; ``config`` also holds the ``input``."""
    session = {key: value for key, value in config.items() if key != "input"}
    with connect(f"ws://127.0.0.1:{engine.port}{SESSIONS}", proxy=None) as connection:
        for frame in ({"type": "session.config", **session}, {"type": "input.text", "text": config["input"]}):
            connection.send(json.dumps(frame))
        connection.send('{"type": "input.done"}')
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                connection.recv(left)
            except TimeoutError:
                break
        connection.socket.close()  # without a word of leave


def leave_often(engine, requests, number, *, at_once=8, longest=1.2):
    """Leave ``number`` of these requests in turn, at points drawn by a fixed seed."""
    draw = random.Random(7)
    moments = [draw.uniform(0.0, longest) for _ in range(number)]
    with ThreadPoolExecutor(at_once) as pool:
        jobs = [pool.submit(leave, engine, *requests[i % len(requests)], moment) for i, moment in enumerate(moments)]
        for job in jobs:
            job.result()


def segments():
    """Return the names in shared memory that hold a request's id."""
    return {file.name for file in SEGMENTS.iterdir() if "speech-" in file.name or "chatcmpl-" in file.name}


def memory(engine):
    """Return the resident bytes of the engine's processes; what several of them share counts for each."""
    lines = (Path(f"/proc/{pid}/status").read_text().splitlines() for pid in engine.processes())
    return 1024 * sum(int(line.split()[1]) for status in lines for line in status if line.startswith("VmRSS:"))


def gauges(client):
    """Return the sum of each gauge of running and waiting requests: vLLM-Omni's, and vLLM's of each stage."""
    names = [f"{prefix}:num_requests_{state}" for prefix in ("vllm_omni", "vllm") for state in ("running", "waiting")]
    lines = [line for line in client.metrics().splitlines() if not line.startswith("#")]
    return {name: sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")) for name in names}


def until(condition, seconds=SECONDS):
    """Return the last of what ``condition`` gives: the first that is empty or all zero, if one comes in time."""
    end = time.monotonic() + seconds
    while True:
        seen = condition()
        if not any(seen.values() if isinstance(seen, dict) else seen) or time.monotonic() > end:
            return seen
        time.sleep(0.2)
