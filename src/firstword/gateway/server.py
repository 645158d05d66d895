"""Run the gateway in this process."""

import logging
import math
import signal
import socket
import sys
import tempfile
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from firstword.errors import Exit, FirstwordError
from firstword.gateway import app, catalogue, logs, settings

log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75


def serve() -> int:
    """Serve until SIGTERM or SIGINT; requests in flight may end, within the stop timeout.

    Raises:
        FirstwordError: A setting or the catalogue is wrong, it would be open to others without a key, or
            the port is taken.
    """
    chosen = settings.load()
    chosen.require_safe()
    known = catalogue.load()
    _require_writable(chosen.state_dir)
    logs.set_up()
    for line in settings.unknown():
        log.warning(line)
    listening = listen(chosen.host, chosen.port)
    server = uvicorn.Server(configuration(app.create(chosen, known), chosen))
    # uvicorn repeats the signal once it has stopped, which would end the process as killed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(Exit.OK)))
    facts = {"address": "http://{}:{}".format(*listening.getsockname()[:2]), "keys": len(chosen.keys())}
    log.info("listening", extra={"facts": {**facts, "upstreams": [*chosen.upstreams, *chosen.optional_upstreams]}})
    server.run(sockets=[listening])
    return int(Exit.OK if server.started else Exit.DEFECT)


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FirstwordError(
            f"{folder} cannot be written to ({error.strerror})",
            mend="set FIRSTWORD_RUN_DIR to a folder that can be (a tmpfs in a container)",
            code=Exit.CONFIG,
        ) from error


def configuration(application: ASGIApp, chosen: settings.Settings) -> uvicorn.Config:
    """Return how uvicorn serves the application."""
    return uvicorn.Config(
        application,
        # The environment of the engines has faster parsers; the gateway's own is what is tested.
        http="h11",
        loop="asyncio",
        ws="websockets-sansio",
        ws_max_size=chosen.message_limit,
        # Sound does not get smaller, and texts are short.
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Longer than clients keep an idle connection (OpenAI's SDKs 5 s, uvicorn's own default): who closes first must
        # be the client, or a request may meet a connection that is just closed.
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(chosen.stop_timeout),
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one.

    Raises:
        FirstwordError: The port is taken, or the address is none of this machine's.
    """
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((bare, port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise FirstwordError(
            f"{host}:{port} cannot be listened on ({error.strerror})",
            mend="stop what listens there, or set FIRSTWORD_HOST and FIRSTWORD_PORT",
            code=Exit.PORT_IN_USE,
        ) from error
    return listening
