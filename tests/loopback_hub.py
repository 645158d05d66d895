"""A model hub on loopback: the few endpoints that huggingface_hub uses to fetch a model at a revision.

Small files are answered directly, large ones (``lfs``) through a redirect to a second server, as the real hub sends
them to its CDN. It can break connections, corrupt bytes, answer for another revision, and refuse.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from loopback_server import LoopbackServer


@dataclass
class Seen:
    """One request as it arrived."""

    server: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class LoopbackHub:
    """What the hub holds, and how it misbehaves.

    Attributes:
        repository: ``owner/name``.
        revision: The one commit it holds.
        files: Content by path.
        lfs: The paths that go through the CDN.
        break_after: Bytes after which a file's next transfer breaks, by path; a list gives one number a transfer.
        corrupt: Paths whose bytes are sent with one bit changed.
        answers_for: The commit it claims to answer for.
        status: HTTP status with which every request for a path (or ``api``) is refused.
        stall: Set while transfers wait in the middle; for interrupts.
        seen: Every request.
    """

    repository: str
    revision: str
    files: dict[str, bytes]
    lfs: set[str]
    break_after: dict[str, list[int]] = field(default_factory=dict)
    corrupt: set[str] = field(default_factory=set)
    answers_for: str | None = None
    status: dict[str, int] = field(default_factory=dict)
    stall: threading.Event = field(default_factory=threading.Event)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    cdn: str = ""

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def git_sha1(self, path: str) -> str:
        content = self.files[path]
        return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()

    def info(self) -> dict[str, Any]:
        """Return the answer of ``/api/models/…/revision/…?blobs=true``."""
        siblings = []
        for path, content in self.files.items():
            item: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": self.git_sha1(path)}
            if path in self.lfs:
                item["lfs"] = {"size": len(content), "sha256": self.sha256(path), "pointerSize": 134}
            siblings.append(item)
        return {"id": self.repository, "sha": self.answers_for or self.revision, "siblings": siblings}

    def transfers(self, path: str) -> list[Seen]:
        """Return the GET requests that asked for a file's bytes."""
        server = "cdn" if path in self.lfs else "hub"
        return [s for s in self.seen if s.method == "GET" and s.server == server and s.path.endswith(f"/{path}")]


class _Server(LoopbackServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that break off are part of the tests."""


@contextmanager
def serving(hub: LoopbackHub) -> Iterator[LoopbackHub]:
    """Serve ``hub`` on two loopback ports while the context lasts."""
    servers = [_Server(("127.0.0.1", 0), handler(hub, name)) for name in ("hub", "cdn")]
    hub.url, hub.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield hub
    finally:
        hub.stall.clear()
        for server in servers:
            server.shutdown()
            server.server_close()


def handler(hub: LoopbackHub, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.seen.append(Seen(name, self.command, path, {k.lower(): v for k, v in self.headers.items()}))
            if path == f"/api/models/{hub.repository}/revision/{hub.revision}":
                if "api" in hub.status:
                    return self._refuse(hub.status["api"])
                return self._send(200, json.dumps(hub.info()).encode(), {"Content-Type": "application/json"})
            prefix = "/cdn/" if name == "cdn" else f"/{hub.repository}/resolve/{hub.revision}/"
            file = path.removeprefix(prefix)
            if path == file or file not in hub.files:
                return self._refuse(404)
            if file in hub.status:
                return self._refuse(hub.status[file])
            commit = {"X-Repo-Commit": hub.answers_for or hub.revision}
            if name == "cdn":
                return self._content(file, {"ETag": f'"{hub.sha256(file)}"'})
            if file in hub.lfs:
                linked = {"X-Linked-Size": str(len(hub.files[file])), "X-Linked-Etag": f'"{hub.sha256(file)}"'}
                location = {"Location": f"{hub.cdn}/cdn/{file}?Signature=secret-signature"}
                return self._send(302, b"", commit | linked | location)
            return self._content(file, commit | {"ETag": f'"{hub.git_sha1(file)}"'})

        def _content(self, file: str, headers: dict[str, str]) -> None:
            content = hub.files[file]
            if file in hub.corrupt:
                content = content[:-1] + bytes([content[-1] ^ 1])
            start = 0
            wanted = self.headers.get("Range", "")
            if wanted.startswith("bytes=") and wanted.endswith("-"):
                start = int(wanted[6:-1])
                headers |= {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            body = content[start:]
            cut = None
            if self.command == "GET" and hub.break_after.get(file):
                cut = hub.break_after[file].pop(0)
            self._send(206 if start else 200, body, headers, cut)

        def _send(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if cut is None:
                self.wfile.write(body)
                return
            self.wfile.write(body[:cut])
            self.wfile.flush()
            while hub.stall.is_set():
                threading.Event().wait(0.02)
            self.close_connection = True

        def _refuse(self, status: int) -> None:
            codes = {404: {"X-Error-Code": "EntryNotFound"}, 403: {"X-Error-Code": "GatedRepo"}}
            self._send(status, b'{"error":"no"}', codes.get(status, {}))

    return Handler
