"""List, download and verify checkpoints at their pinned revisions.

firstword models list                          every name, its size and whether it is here
firstword models download step-audio-2-mini    fetch it, verified; goes on where it stopped
firstword models verify                        everything that is here, in milliseconds
firstword models verify --full NAME            the same, reading every byte of it (published and synthetic ones)
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from firstword import commands, ending
from firstword.errors import Exit, FirstwordError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every name, its size and whether it is here")
    fetching = actions.add_parser("download", help="fetch models, verified against the lock and the hub")
    fetching.add_argument("names", metavar="NAME", nargs="+", help="a published model's name")
    fetching.add_argument("--repair", action="store_true", help="replace files that are not what was published")
    verifying = actions.add_parser("verify", help="check what is here, without the network")
    verifying.add_argument("names", metavar="NAME", nargs="*", help="a name or a folder (default: all that are here)")
    verifying.add_argument(
        "--full",
        action="store_true",
        help="read every byte again, of synthetic ones too; of a folder of your own no checksums are known",
    )
    for action in (listing, fetching, verifying):
        action.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run one action.

    Raises:
        FirstwordError: A model is unknown, cannot be downloaded, or is not what was published.
    """
    return {"list": _list, "download": _download, "verify": _verify}[args.action](args)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _list(args: argparse.Namespace) -> int:
    from firstword import paths

    rows = rows_of_catalog()
    if args.json:
        print(json.dumps(rows))
        return Exit.OK
    head = ("NAME", "FAMILY", "KIND", "SIZE", "LICENCE", "HERE")
    table = [head, *((r["name"], r["family"], r["kind"], r["size"], r["licence"], r["here"]) for r in rows)]
    widths = [max(len(str(row[column])) for row in table) for column in range(len(head))]
    for row in table:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    make = commands.typed(f"firstword synthetic NAME {paths.home() / 'checkpoints'}/NAME")
    print(f"\nThe synthetic ones are made: {make}")
    return Exit.OK


def rows_of_catalog() -> list[dict[str, Any]]:
    """Return what ``list`` prints: one row per name. Reads no weights and asks nobody."""
    from firstword.engine.models import catalog, models_folder
    from firstword.engine.models.folders import synthetic_folder

    rows = []
    for name in catalog.names():
        entry = catalog.get(name)
        if entry.lock is None:
            folder = synthetic_folder(name)
            here = "yes" if (folder / "config.json").is_file() else "no"
            size = "made here"
        else:
            folder = models_folder() / name
            here = _here(folder, entry.lock.files)
            size = f"{entry.lock.size / 1e9:.1f} GB"
        row = {"name": name, "family": entry.family, "kind": entry.kind, "size": size, "licence": entry.licence}
        rows.append(row | {"here": here, "folder": str(folder)})
    return rows


def _here(folder: Path, files: dict[str, Any]) -> str:
    held = sum((folder / path).is_file() for path in files)
    return "yes" if held == len(files) else f"{held} of {len(files)} files" if held else "no"


def _download(args: argparse.Namespace) -> int:
    from firstword.engine.models import catalog, hub, models_folder, resolve
    from firstword.engine.models.download import download

    folders = []
    for name in args.names:
        entry = catalog.get(name)
        if entry.lock is None:
            raise FirstwordError(
                f"{name} is not downloaded but made",
                mend=f"firstword synthetic {name} DIR",
                code=Exit.USAGE,
            )
        if forbidden := hub.forbidden_by():
            raise FirstwordError(
                f"{forbidden} forbids downloading {name}",
                mend=f"env -u {forbidden} firstword models download {name}",
                code=Exit.DOWNLOAD,
            )
        download(entry.lock, models_folder() / entry.name, report=_say, repair=args.repair)
        folders.append(resolve(entry.name, offline=True, report=_say).path)
    for folder in folders:
        print(json.dumps({"ok": True, "path": str(folder)}) if args.json else folder)
    return Exit.OK


def _verify(args: argparse.Namespace) -> int:
    from firstword.engine.models import catalog, models_folder

    present = [n for n in catalog.names() if (models_folder() / n).is_dir() or (catalog.get(n).synthetic and _made(n))]
    results = [_verified(name, full=args.full) for name in args.names or present]
    for result in results:
        if args.json:
            continue
        print(f"{result['name']}: " + ("ok" if result["ok"] else result["cause"]) + f" ({result['seconds']:.3f} s)")
        if not result["ok"]:
            print(f"  mend: {result['mend']}")
    if args.json:
        print(json.dumps(results))
    elif not results:
        print(f"nothing here yet in {models_folder()}")
    return next((result["code"] for result in results if not result["ok"]), int(Exit.OK))


def _made(name: str) -> bool:
    from firstword.engine.models.folders import synthetic_folder

    return synthetic_folder(name).is_dir()


def _verified(name: str, *, full: bool) -> dict[str, Any]:
    from firstword.engine.models import resolve

    started = time.monotonic()
    result: dict[str, Any] = {"name": name, "ok": True}
    try:
        try:
            resolve(name, offline=True, report=_say, full=full)
        except OSError as error:  # one that cannot be read keeps no other from being verified
            raise ending.of_system(error) or error from error
    except FirstwordError as error:
        result |= {"ok": False, **error.as_dict()}
    return result | {"seconds": time.monotonic() - started}
