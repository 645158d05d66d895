"""Make a small checkpoint of a real architecture, without a download.

The weights are synthetic: the model answers like the published one would (own end token, length that
follows the text, every voice), but its voice is noise-like and says nothing. The same name and seed
give the same bytes. Names:
"""

import argparse
import errno
import importlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

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
        False when the folder already held this very checkpoint.

    Raises:
        FirstwordError: The name is unknown, the folder holds something else, or the disk is full.
    """
    if name not in NAMES:
        raise FirstwordError(
            f"no synthetic checkpoint is called {name!r}",
            mend="use one of: " + ", ".join(NAMES),
            code=Exit.MODEL_UNKNOWN,
        )
    module, arguments, _ = NAMES[name]
    mark = {"name": name, "seed": seed, "recipe": recipe.fingerprint(module.rpartition(".")[2])}
    if _is_occupied(folder):
        held = _read_mark(folder)
        if held is None:
            raise FirstwordError(
                f"{folder} exists and is not a synthetic checkpoint",
                mend="name another folder, or remove this one yourself",
                code=Exit.USAGE,
            )
        if held == mark:
            return False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            made = Path(scratch) / folder.name
            made.mkdir()
            importlib.import_module(module).build(*arguments, made, seed, report)
            (made / MARK).write_text(json.dumps(mark, indent=2) + "\n")
            linked = linking.link_equal_files(made, [p for p in _siblings(folder) if _read_mark(p)])
            if linked:
                report(f"{linked} files shared with the checkpoints beside it")
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise FirstwordError(
            f"no space left for {folder}",
            mend="free 200 MB there, or name a folder on another disk",
            code=Exit.DISK_FULL,
        ) from error
    return True


def _is_occupied(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _siblings(folder: Path) -> list[Path]:
    return sorted(p for p in folder.parent.iterdir() if p.is_dir() and p != folder and not p.name.startswith("."))


def _read_mark(folder: Path) -> dict[str, object] | None:
    try:
        held: dict[str, object] = json.loads((folder / MARK).read_text())
    except (OSError, ValueError):
        return None
    return held
