"""Bring the compose stack up for `scripts/up`, tell of it, and stop it. Standard library only."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firstword import paths
from firstword.errors import Exit, FirstwordError
from firstword.native import compose, first_requests
from firstword.native.compose import Compose


def started() -> tuple[str, ...] | None:
    """Return the compose files of the stack that was started from here, or None."""
    try:
        return tuple(json.loads(_record().read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError):
        return None


def up(files: Sequence[str], port: int | None, timeout: float) -> str:
    """Build what is missing, start, wait until all is ready, and return what to paste.

    Args:
        files: Compose files.
        port: To publish the one address on; None for the setting's.
        timeout: Seconds until all has to be ready, builds not counted.

    Raises:
        FirstwordError: Why it is not; what was started for it is stopped again.
    """
    settings = {"FIRSTWORD_PORT": str(port)} if port is not None else {}
    stack = Compose(files, settings, paths.home() / "logs")
    config = stack.config()
    missing = compose.missing(config)
    if missing:
        compose.require_room()
    before = stack.containers()
    _record().parent.mkdir(parents=True, exist_ok=True)
    _record().write_text(json.dumps({"files": list(files)}) + "\n", encoding="utf-8")
    try:
        if missing:
            stack.build()
        stack.up(timeout, before)
    except BaseException:
        if not before:  # what ran before goes on
            stack.run("down", "--remove-orphans")
            _record().unlink(missing_ok=True)
        raise
    return _requests(config)


def stop() -> list[str]:
    """Stop the stack that was started from here and return its services; volumes are kept."""
    files = started()
    if files is None:
        return []
    stack = Compose(files, {}, paths.home() / "logs")
    services = sorted(stack.containers())
    done = stack.run("down", "--remove-orphans")
    if done.returncode != 0:
        raise FirstwordError(
            f"the containers could not be stopped: {compose.last_line(done.stderr)}",
            mend=f"start Docker, then run it again, or: {stack.shown('down')}",
            code=Exit.ENVIRONMENT,
        )
    _record().unlink(missing_ok=True)
    return services


def tell(files: Sequence[str]) -> int:
    """Print what each container is, and return 0 when all are healthy."""
    told = Compose(files, {}, paths.home() / "logs").containers()
    for service, state in sorted(told.items()):
        print(f"{service}  {compose.word(state)}")
    return int(Exit.OK if told and all(compose.word(s) == "healthy" for s in told.values()) else Exit.NOT_READY)


def _record() -> Path:
    return paths.home() / "run/compose.json"


def _requests(config: dict[str, Any]) -> str:
    services = config["services"]
    (port,) = services["gateway"]["ports"]
    url = f"http://{port['host_ip']}:{port['published']}"
    speech = services["qwen3-tts"]["command"][0]
    settings = services["gateway"]["environment"]
    key = bool(settings.get("FIRSTWORD_API_KEYS") or settings.get("FIRSTWORD_API_KEYS_FILE"))
    about = f" {first_requests.SYNTHETIC}" if speech.endswith("-synthetic") else ""
    return f"""
Both engines are ready, at one address.{about} Paste these:

{first_requests.text(url, key=key)}
Logs: docker compose --project-name {config["name"]} logs
Stop: scripts/up --stop
"""
