"""Run the whole acceptance suite against a stack that runs, and say which of its promises hold.

  firstword smoke http://127.0.0.1:8000                 every model that the address lists
  firstword smoke http://127.0.0.1:8091 --out smoke     keep the sounds, a table, JUnit XML and JSON
  firstword smoke URL --model M --check voice           some of it

For each model: first, second and tenth request, each format, streams, each voice, seeds, eight at once,
a client that leaves, recognition, spoken answers, OpenAI's client where it is installed; with published
weights also text -> speech -> text.
Ends with 0 when every check passed, 61 when one failed, 60 when there is no server. A key is read from
FIRSTWORD_API_KEY.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from firstword.acceptance import kinds
from firstword.acceptance.arguments import read_recording, require_folder, require_seconds
from firstword.acceptance.client import Client
from firstword.acceptance.errors import ClientError
from firstword.acceptance.judge import FORMATS
from firstword.acceptance.recording import vowels
from firstword.acceptance.smoke import report
from firstword.acceptance.smoke.suite import FAILED, SPEAKING, Result, checks_of, run_checks
from firstword.acceptance.smoke.trial import Trial
from firstword.errors import Exit, FirstwordError

# Those that vLLM-Omni 0.26 offers.
DEFAULT_FORMATS = "wav,pcm,flac,mp3,opus"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword smoke`` takes."""
    parser.add_argument("url", metavar="URL", help="address of the gateway or of one engine")
    parser.add_argument("--model", action="append", metavar="M", help="check this model only; may be given again")
    parser.add_argument("--check", metavar="TEXT", help="only the checks whose name holds TEXT")
    parser.add_argument("--formats", default=DEFAULT_FORMATS, metavar="F,F", help="to check (default: %(default)s)")
    parser.add_argument("--audio", type=Path, metavar="WAV", help="recording to send (default: one made on the spot)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep sounds, smoke.txt, smoke.xml and smoke.json there"
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="check the models at the same time: shorter, but what is measured is a loaded machine",
    )
    parser.add_argument("--timeout", type=float, default=120.0, metavar="S", help="per request (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    """Run the suite.

    Raises:
        FirstwordError: No server, no such model or format, nothing to check, no recording, or no place for results.
    """
    formats = tuple(args.formats.split(","))
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise FirstwordError(
            f"no format is called {', '.join(unknown)}", mend=f"use some of {','.join(FORMATS)}", code=Exit.USAGE
        )
    require_seconds("--timeout", args.timeout, 0.001)
    recording = read_recording(args.audio) if args.audio else vowels()
    if args.out:
        require_folder(args.out)
    key = os.environ.get("FIRSTWORD_API_KEY") or None
    what = _models(args.url, key, args.timeout, args.model)

    def check(model: str) -> list[Result]:
        found = []
        with Client(args.url, key, args.timeout, model=model) as client:
            trial = Trial(
                client=client,
                url=args.url.rstrip("/").removesuffix("/v1"),
                model=model,
                kind=next((kind for kind in what[model] if kind in SPEAKING), None),
                formats=formats,
                recording=recording,
                keep=_keeper(args.out, model),
                others={name: kinds_ for name, kinds_ in what.items() if name != model},
                ask_as=lambda name: Client(args.url, key, args.timeout, model=name),
                # Of the models here, the one that listens.
                has_one_voice=kinds.TRANSCRIPTION in what[model],
                api_key=key,
                timeout=args.timeout,
            )
            for result in run_checks(trial, what[model], only=args.check):
                found.append(result)
                if not args.json:
                    # One write, so that those of two models do not mix.
                    sys.stdout.write(f"{report.line(result)}\n")
                    sys.stdout.flush()
        return found

    models = args.model or list(what)
    with ThreadPoolExecutor(len(models) if args.together else 1) as pool:
        results = [result for found in pool.map(check, models) for result in found]
    if not results:
        names = sorted({name for wanted in what.values() for name, _ in checks_of(wanted, formats)})
        raise FirstwordError(
            f"no check's name holds {args.check!r}", mend=f"there are: {'; '.join(names)}", code=Exit.USAGE
        )
    failed = any(result.outcome == FAILED for result in results)
    document = {"ok": not failed, "url": args.url, "results": [result.as_dict() for result in results]}
    print(json.dumps(document) if args.json else report.summary(results))
    if args.out:
        report.write_junit(results, args.url, args.out / "smoke.xml")
        (args.out / "smoke.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        table = [*map(report.line, results), report.summary(results)]
        (args.out / "smoke.txt").write_text("\n".join(table) + "\n", encoding="utf-8")
    return int(Exit.BAD_ANSWER if failed else Exit.OK)


def _models(url: str, key: str | None, timeout: float, wanted: list[str] | None) -> dict[str, tuple[str, ...]]:
    """Return what each model of the server is for."""
    from firstword.acceptance.asking import Server, not_ready

    try:
        with Client(url, key, timeout) as client:
            listed = client.models()
    except ClientError as error:
        raise not_ready(f"{url}: {error}") from error
    if missing := [name for name in wanted or () if name not in listed]:
        raise FirstwordError(
            f"{url} serves no {missing[0]}", mend=f"it serves {', '.join(listed) or 'nothing'}", code=Exit.MODEL_UNKNOWN
        )
    seen = Server(url, api_key=key).load()
    has_audio_out = len(listed) > 1 or seen is None or seen.stages != 1
    what = {name: kinds.kinds_of(name, has_audio_out=has_audio_out) for name in listed}
    for name in wanted or listed:
        if not what[name]:
            raise FirstwordError(
                f"nothing tells what {name} is for",
                mend="serve it by a name that says it, or leave it out with --model",
                code=Exit.USAGE,
            )
    return what


def _keeper(out: Path | None, model: str) -> Callable[[str, bytes], None]:
    def keep(name: str, body: bytes) -> None:
        if out is not None:
            folder = out / re.sub(r"[^\w.-]", "_", model)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / re.sub(r"[^\w.-]", "_", name)).write_bytes(body)

    return keep
