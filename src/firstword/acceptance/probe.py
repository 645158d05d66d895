"""Ask a server for its first real answer of each kind and judge it.

  firstword probe http://127.0.0.1:8091                 one real request of each kind, judged
  firstword probe http://127.0.0.1:8091 --wait 300      the same, once it listens
  firstword probe http://127.0.0.1:8091 --readiness     for a health check: cheap after the first answer

Ends with 0 when every answer is good, 60 when the server is not ready, 61 when it answers badly. A
key is read from FIRSTWORD_API_KEY.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from firstword.acceptance import kinds, readiness
from firstword.acceptance import state as memory
from firstword.acceptance.arguments import require_seconds
from firstword.acceptance.asking import Server, ask
from firstword.errors import Exit, FirstwordError

if TYPE_CHECKING:
    from firstword.acceptance.asking import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword probe`` takes."""
    limits = readiness.Limits()
    parser.add_argument("url", metavar="URL", help="address of the server, such as http://127.0.0.1:8091")
    parser.add_argument("--model", help="model to ask for (default: the first that the server lists)")
    parser.add_argument("--kind", action="append", choices=kinds.ALL, help="ask for this kind only; may be given again")
    parser.add_argument("--audio", type=Path, metavar="WAV", help="recording to send (default: one made on the spot)")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="S", help="per request (default: %(default)s)")
    parser.add_argument("--wait", type=float, default=0.0, metavar="S", help="first wait so long for it to listen")
    parser.add_argument("--readiness", action="store_true", help="send a real request only when it tells something new")
    parser.add_argument("--state", type=Path, metavar="FILE", help="where --readiness remembers (default: run folder)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="the supervisor's record (default: run folder)")
    parser.add_argument(
        "--fresh", type=float, default=limits.fresh, metavar="S", help="trust an answer so long (default: %(default)s)"
    )
    parser.add_argument(
        "--stall",
        type=float,
        default=limits.stall,
        metavar="S",
        help="frozen when nothing moves (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Probe once.

    Raises:
        FirstwordError: Not ready, or a bad answer.
    """
    for name, least in (("timeout", 0.001), ("wait", 0.0), ("fresh", 0.0), ("stall", 0.0)):
        require_seconds(f"--{name}", getattr(args, name), least)
    server = Server(
        args.url,
        model=args.model,
        kinds=tuple(args.kind) if args.kind else None,
        api_key=os.environ.get("FIRSTWORD_API_KEY") or None,
        timeout=args.timeout,
        recording=args.audio,
    )
    if args.readiness:
        return _run_readiness(args, server)
    report = _wait(server, args.wait, None, None) if args.wait else ask(server)
    if args.json:
        print(json.dumps(report.as_dict()))
    else:
        for answer in report.answers:
            print(f"{'good' if answer.ok else 'BAD '}  {answer.name}: {answer.detail}")
    if not (args.json and not report.ok):
        report.require_ok()
    return int(Exit.OK if report.ok else Exit.BAD_ANSWER)


def wait_ready(
    url: str,
    timeout: float,
    on_progress: Callable[[str, float], None] | None = None,
    *,
    still_alive: Callable[[], bool] | None = None,
    kinds: tuple[str, ...] | None = None,
    api_key: str | None = None,
) -> "Report":
    """Wait until the server has given a good answer of each kind.

    Args:
        url: Its address.
        timeout: Seconds to wait in all.
        on_progress: Called with what is being waited for and the seconds waited, about once a second.
        still_alive: Returns False once there is nothing left to wait for.
        kinds: The kinds to ask for; None for those that the model's name tells.
        api_key: Its key, or None.

    Raises:
        FirstwordError: It did not come up in time or died (``Exit.NOT_READY``), or it answers badly
            (``Exit.BAD_ANSWER``).
    """
    server = Server(url, kinds=kinds, api_key=api_key, timeout=timeout)
    report = _wait(server, timeout, on_progress, still_alive)
    report.require_ok()
    return report


def first_answer(url: str, *, state: Path, record: Path | None = None, timeout: float = 600.0) -> str:
    """Return the server's first good answer in one line, and remember it for `still_answers`.

    Args:
        url: Its address; it listens already.
        state: Where to remember it.
        record: The supervisor's record of its engine.
        timeout: Seconds without a byte after which a request is given up, and to wait while another
            probe (a container's health check) asks.

    Raises:
        FirstwordError: Not ready, or a bad answer.
    """
    return readiness.check(_recorded(url, record, timeout), state=state, record=record, patience=timeout).why


def still_answers(
    url: str,
    *,
    state: Path,
    record: Path | None = None,
    timeout: float = 60.0,
    limits: readiness.Limits | None = None,
) -> str | None:
    """Return None while the server is ready, else the cause in one line. Cheap, see `readiness`."""
    try:
        readiness.check(_recorded(url, record, timeout), state=state, record=record, limits=limits)
    except FirstwordError as error:
        return error.cause
    return None


def _recorded(url: str, record: Path | None, timeout: float) -> Server:
    about = memory.read_json(record)
    named = about.get("kinds")
    return Server(
        url,
        model=about.get("model"),
        kinds=tuple(named) if named else None,
        api_key=os.environ.get("FIRSTWORD_API_KEY") or None,
        timeout=timeout,
    )


def _run_readiness(args: argparse.Namespace, server: Server) -> int:
    record = args.record or memory.record_file(args.url)
    recorded = _recorded(args.url, record, args.timeout)
    server = replace(server, model=server.model or recorded.model, kinds=server.kinds or recorded.kinds)
    limits = readiness.Limits(fresh=args.fresh, stall=args.stall)
    state = args.state or memory.state_file(args.url)
    ready = readiness.check(server, state=state, record=record, limits=limits)
    if args.json:
        print(json.dumps({"ok": True, "why": ready.why, "asked": ready.asked}))
    else:
        print(f"ready: {ready.why}")
    return int(Exit.OK)


def _wait(
    server: Server,
    timeout: float,
    on_progress: Callable[[str, float], None] | None,
    still_alive: Callable[[], bool] | None,
) -> "Report":
    start = time.monotonic()
    waited = 0.0
    while True:
        try:
            server.health()
        except FirstwordError as error:
            if error.code != Exit.NOT_READY:
                raise
            last = error
        else:
            if on_progress:
                on_progress("its first answer", waited)
            try:
                return ask(replace(server, timeout=max(1.0, timeout - waited)))
            except FirstwordError as error:
                if error.code != Exit.NOT_READY:
                    raise
                last = error
        waited = time.monotonic() - start
        if waited >= timeout or (still_alive and not still_alive()):
            raise last
        if on_progress:
            on_progress("it to listen", waited)
        time.sleep(min(1.0, timeout - waited))
