"""A gateway in this process, on a free loopback port, and what it logs."""

import json
import logging
import select
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn

from firstword.acceptance import state
from firstword.gateway import app, catalogue, logs
from firstword.gateway.server import configuration, listen
from firstword.gateway.settings import Settings


class Running:
    """A gateway's address, a client for it, and the lines that it logged."""

    def __init__(self, url, lines):
        self.url, self.lines = url, lines
        self.http = httpx.Client(base_url=url, timeout=20, trust_env=False)

    def ready(self):
        return self.http.get("/ready")

    def wait(self, status=200):
        """Return what ``/ready`` tells once it answers ``status``."""
        self.until(lambda _: self.ready().status_code == status)
        return self.ready().json()

    def until(self, true_of, seconds=20):
        """Return what ``/ready`` tells once ``true_of`` it is so."""
        deadline = time.monotonic() + seconds
        while not true_of(answer := self.ready().json()):
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
        return answer

    def line(self, request_id, seconds=10):
        """Return the one line of a request, as the process writes it; it follows the answer."""
        deadline = time.monotonic() + seconds
        while True:
            lines = [json.loads(formatted(line)) for line in list(self.lines) if line.getMessage() == "request"]
            found = [line for line in lines if line["request_id"] == request_id]
            if found:
                assert len(found) == 1
                return found[0]
            assert time.monotonic() < deadline, lines
            time.sleep(0.02)


@contextmanager
def running(*upstreams, **settings):
    """Run a gateway before these engines until the end of the block."""
    defaults = {"ready_interval": 0.1, "port": 0, "stop_timeout": 1, "voices_dir": state.run_dir() / "voices"}
    chosen = Settings(upstreams=tuple(upstreams), **defaults | settings)
    lines, handler = [], logging.Handler()
    handler.emit = lines.append
    logger = logging.getLogger("firstword.gateway")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    listening = listen(chosen.host, 0)
    server = uvicorn.Server(configuration(app.create(chosen, catalogue.load()), chosen))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", lines)
    finally:
        server.should_exit = True
        thread.join(20)
        logger.removeHandler(handler)
        logger.setLevel(before)
    assert not thread.is_alive()


def formatted(record):
    """Return a record as the gateway's process writes it."""
    return logs.JsonLines().format(record)


def head(handler, kind="text/event-stream", status=200, **headers):
    """Send a scripted engine's status and headers."""
    handler.send_response(status)
    handler.send_header("content-type", kind)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def chunk(handler, data):
    """Send one chunk of a chunked answer; an empty one ends it."""
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    handler.wfile.flush()


def cut(handler):
    """Close the connection as a process that dies does."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def left(handler, seconds=5):
    """Return whether the gateway closes its side of the connection in time."""
    readable, _, _ = select.select([handler.connection], [], [], seconds)
    return bool(readable) and handler.connection.recv(1, socket.MSG_PEEK) == b""


def events(*documents, end=True):
    """Return a script that answers with these events; without ``end`` the connection breaks after them."""

    def script(handler, body):
        head(handler, transfer_encoding="chunked")
        for document in documents:
            if callable(document):
                document()
                continue
            data = document if isinstance(document, str) else json.dumps(document)
            chunk(handler, f"data: {data}\n\n".encode())
        chunk(handler, b"") if end else cut(handler)

    return script
