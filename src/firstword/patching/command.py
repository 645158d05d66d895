"""The patch series in patches/: apply it to an environment, verify, list or refresh it.

apply    changes an environment (or unpacked wheels, --tree), all or nothing, and leaves a manifest
verify   compares an environment with the series; exit code 30 names what differs
list     the patches in order: what each mends and when it can go (--json: every field)
tree     builds a side-by-side copy of the packages with some of the patches, for PYTHONPATH
refresh  writes the patches and patches/checksums.json anew (see patches/README.md)
"""

import argparse
import json
from pathlib import Path

from firstword import commands, paths
from firstword.errors import Exit, FirstwordError
from firstword.patching.applying import apply
from firstword.patching.environment import find_site_packages
from firstword.patching.refreshing import refresh
from firstword.patching.series import Series, load_series
from firstword.patching.trees import build_tree
from firstword.patching.verifying import verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("apply", "apply the series, all or nothing"),
        ("verify", "check an environment against the series"),
        ("list", "list the patches"),
        ("tree", "build a copy of the packages with some of the patches"),
        ("refresh", "write the patches and their checksums anew"),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("--json", action="store_true", help="print JSON")
        if name == "list":
            continue
        where = action.add_mutually_exclusive_group()
        where.add_argument("--site-packages", type=Path, metavar="DIR", help="an environment's site-packages")
        if name in ("apply", "refresh"):
            where.add_argument("--tree", type=Path, metavar="DIR", help="a folder of unpacked wheels")
        if name == "tree":
            action.add_argument("dest", type=Path, metavar="DEST", help="the folder to make")
            choice = action.add_mutually_exclusive_group()
            choice.add_argument("--upto", metavar="PATCH", help="the last patch to apply, or `stock` for none")
            choice.add_argument("--without", metavar="PATCH", help="leave out a patch and those that depend on it")
        if name == "refresh":
            action.add_argument("--patch", help="a patch to make anew from --edited")
            action.add_argument("--edited", type=Path, metavar="DIR", help="a tree up to that patch, with your edits")


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    # refresh writes diffs and checksums, and tree begins a new patch: they must not ask for right ones.
    series = load_series(paths.root() / "patches", strict=args.action not in ("refresh", "tree"))
    if args.action == "list":
        _list(series, as_json=args.json)
        return int(Exit.OK)
    folder: Path = (getattr(args, "tree", None) or args.site_packages or find_site_packages(series.versions)).resolve()
    if not folder.is_dir():
        raise FirstwordError(
            f"there is no folder {folder}", mend="name the folder that the packages lie in", code=Exit.USAGE
        )
    if args.action == "verify":
        return _verify(series, folder, as_json=args.json)
    if args.action == "apply":
        manifest = apply(series, folder, partial=args.tree is not None)
        report = {"applied": list(manifest.patches), "files": list(manifest.files), "in": str(folder)}
        text = f"applied {len(manifest.patches)} patches to {len(manifest.files)} files in {folder}"
    elif args.action == "tree":
        build_tree(args.dest, folder, series, upto=args.upto, without=args.without, link=False)
        report = {"tree": str(args.dest)}
        text = f"PYTHONPATH={args.dest.resolve()}"
    else:
        if (args.patch is None) != (args.edited is None):
            raise FirstwordError("--patch and --edited go together", mend="give both or neither", code=Exit.USAGE)
        series = refresh(series, folder, patch=args.patch, edited=args.edited)
        report = {"refreshed": [p.name for p in series.patches]}
        text = f"wrote {len(series.patches)} patches and checksums.json; review them with git diff"
    print(json.dumps({"ok": True, **report}) if args.json else text)
    return int(Exit.OK)


def _verify(series: Series, folder: Path, *, as_json: bool) -> int:
    problems = verify(folder, series)
    if as_json:
        told = [{"cause": problem.cause, "mend": commands.typed(problem.mend)} for problem in problems]
        print(json.dumps({"ok": not problems, "problems": told}))
    else:
        for problem in problems:
            print(f"{problem.cause}\n  mend: {commands.typed(problem.mend)}")
        if not problems:
            print(f"{folder}: {len(series.patches)} patches in place")
    return int(Exit.PATCHES if problems else Exit.OK)


def _list(series: Series, *, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "ok": True,
                    "series_sha256": series.sha256,
                    "patches": [dict(p.header, Name=p.name) for p in series.patches],
                }
            )
        )
        return
    for patch in series.patches:
        print(f"{patch.name}\n  {patch.subject}\n  until: {patch.header['Until']}")
