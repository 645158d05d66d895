"""Make a small checkpoint of a real architecture, without a download.

The weights are synthetic: the model answers like the published one would (own end token, length that
follows the text, every voice), but its voice is noise-like and says nothing. The same name and seed
give the same bytes. Names:
"""

import argparse
import errno
import hashlib
import importlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.errors import Exit, FirstwordError
from firstword.synthetic import linking, recipe

# name -> (module with build(), arguments before the folder, one line of help)
NAMES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "qwen3-tts-customvoice-synthetic": (
        "firstword.synthetic.qwen3_tts",
        ("custom_voice",),
        "Qwen3-TTS, the nine published voices",
    ),
    "qwen3-tts-voicedesign-synthetic": (
        "firstword.synthetic.qwen3_tts",
        ("voice_design",),
        "Qwen3-TTS, a voice made from instructions",
    ),
    "qwen3-tts-base-synthetic": (
        "firstword.synthetic.qwen3_tts",
        ("base",),
        "Qwen3-TTS, a voice cloned from reference audio",
    ),
    "step-audio-2-mini-synthetic": (
        "firstword.synthetic.step_audio_2",
        (),
        "Step-Audio-2-mini with its token2wav/: speech, recognition, chat",
    ),
}
__doc__ += "\n".join(f"  {name:34}{text}" for name, (_, _, text) in NAMES.items())

MARK = "firstword-synthetic.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the name, the folder and the seed."""
    parser.add_argument("name", metavar="NAME", help="a name from the list above")
    parser.add_argument(
        "dir",
        metavar="DIR",
        type=Path,
        help="the checkpoint's folder; an older synthetic checkpoint there is replaced, an equal one is kept",
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other weights (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Make the checkpoint and print its folder.

    Raises:
        FirstwordError: The name is unknown, the folder holds something else, or the disk is full.
    """
    started = time.monotonic()

    def report(text: str) -> None:
        print(f"{args.name}: [{time.monotonic() - started:5.1f} s] {text}", file=sys.stderr, flush=True)

    with _ending_in_order():
        made = make(args.name, args.dir, args.seed, report)
    size = sum(file.stat().st_size for file in args.dir.rglob("*") if file.is_file())
    report(f"{'made' if made else 'already there'}, {size / 1e6:.1f} MB")
    print(args.dir)
    return Exit.OK


def make(name: str, folder: Path, seed: int, report: recipe.Report) -> bool:
    """Make one synthetic checkpoint; all of it or nothing.

    Args:
        name: A key of `NAMES`.
        folder: Where the checkpoint will stand. Written beside it first, then renamed.
        seed: Decides every random weight.
        report: Called with one line per step.

    Returns:
        False when the folder already held this very checkpoint, whole.

    Raises:
        FirstwordError: The name is unknown, the folder holds something else or cannot be written to, or the disk is
            full.
    """
    if name not in NAMES:
        raise FirstwordError(
            f"no synthetic checkpoint is called {name!r}",
            mend="use one of: " + ", ".join(NAMES),
            code=Exit.MODEL_UNKNOWN,
        )
    if seed < 0:
        raise FirstwordError(f"a seed is 0 or more, not {seed}", mend="pass --seed 0, or another", code=Exit.USAGE)
    try:
        return _make(name, folder, seed, report)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FirstwordError(
                f"no space left for {folder}",
                mend="free 200 MB there, or name a folder on another disk",
                code=Exit.DISK_FULL,
            ) from error
        raise FirstwordError(
            f"cannot make {folder}: {error.strerror or error}",
            mend="name a folder that can be made and written to",
            code=Exit.USAGE,
        ) from error


def _make(name: str, folder: Path, seed: int, report: recipe.Report) -> bool:
    module, arguments, _ = NAMES[name]
    mark = {"name": name, "seed": seed, "recipe": recipe.fingerprint(module.rpartition(".")[2])}
    if _is_occupied(folder):
        held = _read_mark(folder)
        if held is None:
            raise _refused(f"{folder} exists and is not a synthetic checkpoint")
        if {key: held.get(key) for key in mark} == mark and _is_whole(folder, held.get("files")):
            return False
    if folder.is_symlink():
        raise _refused(f"{folder} is a link, and what it leads to would not be replaced")
    folder = folder.resolve()
    if Path.cwd().is_relative_to(folder):
        raise _refused(f"{folder} is the folder that this command runs in, or lies around it")
    above = next((parent for parent in folder.parents if parent.exists()), folder)
    if not above.is_dir():
        raise _refused(f"{folder} cannot be made: {above} is no folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        try:
            importlib.import_module(module).build(*arguments, made, seed, report)
        except Exception as error:
            if _is_of_a_full_disk(error, made):
                raise OSError(errno.ENOSPC, str(error)) from error
            raise
        files = {path.relative_to(made).as_posix(): _sum(path) for path in sorted(made.rglob("*")) if path.is_file()}
        (made / MARK).write_text(json.dumps({**mark, "files": files}, indent=1) + "\n")
        linked = linking.link_equal_files(made, [p for p in _siblings(folder) if _read_mark(p)])
        if linked:
            report(f"{linked} files shared with the checkpoints beside it")
        if folder.exists():
            folder.rename(Path(scratch) / ".replaced")
        made.rename(folder)
    return True


def _refused(cause: str) -> FirstwordError:
    return FirstwordError(cause, mend="name another folder, or remove this one yourself", code=Exit.USAGE)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(folder: Path, files: object) -> bool:
    """Whether every file is as it was made; 0.1 s for the largest checkpoint."""
    if not isinstance(files, dict) or not files:
        return False
    return all((folder / path).is_file() and _sum(folder / path) == known for path, known in files.items())


def _is_of_a_full_disk(error: Exception, folder: Path) -> bool:
    """Whether an error of a library that writes files (safetensors, torch) comes from a full disk."""
    if isinstance(error, OSError):
        return False  # it says so itself
    full = (f"os error {errno.ENOSPC}", f"os error {errno.EDQUOT}", "No space left on device")
    return any(words in str(error) for words in full) or shutil.disk_usage(folder).free < 1024**2


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Remove what is half made when the process is told to end, too."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_occupied(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _siblings(folder: Path) -> list[Path]:
    return sorted(p for p in folder.parent.iterdir() if p.is_dir() and p != folder and not p.name.startswith("."))


def _read_mark(folder: Path) -> dict[str, Any] | None:
    """Return what a synthetic checkpoint says of itself; None for any other folder."""
    try:
        held = documents.read_json(folder / MARK)
    except (OSError, ValueError):
        return None
    ours = isinstance(held, dict) and held.get("name") in NAMES and {"seed", "recipe"} <= held.keys()
    return held if ours else None
