"""Run a check against a tree: in a process that imports the packages from there.

Importing torch and vLLM takes ten seconds. So one process imports what no patch touches and waits;
each job is a fork of it that puts its tree first on the path, imports the packages for the first
time, and ends with its facts. Run as a script, this file is that process.
"""

import contextlib
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGES = ("vllm_omni", "cosyvoice2", "flashcosyvoice")

# The fixture `run`: a check, a choice of patches, the check's arguments -> its facts.
Run = Callable[..., dict[str, Any]]


class Forks:
    """The waiting process, from outside."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def run(self, tree: Path, check: str, **arguments: Any) -> dict[str, Any]:
        """Return the facts of ``module.function`` in this folder, or ``{"error": …}`` if it raised."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            job = {"tree": str(tree), "check": check, "arguments": arguments, "out": out.name}
            print(json.dumps(job), file=self._process.stdin, flush=True)
            status = self._process.stdout.readline().strip()
            assert status == "0", f"{check} ended with {status or 'the process'}:\n{self._log.read_text()[-4000:]}"
            facts: dict[str, Any] = json.loads(Path(out.name).read_text())
        return facts


@contextlib.contextmanager
def forks(checkpoint: Path, log: Path) -> Iterator[Forks]:
    """Start the waiting process; `checkpoint` is where checks find the model."""
    env = os.environ | {
        "CHECKPOINT": str(checkpoint),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        ready = process.stdout.readline()
        assert ready == "ready\n", log.read_text()[-4000:]
        try:
            yield Forks(process, log)
        finally:
            process.stdin.close()


def _preload() -> None:
    for name in (
        "vllm.model_executor.models.interfaces",
        "vllm.multimodal.processing",
        "vllm.v1.core.sched.scheduler",
        "vllm.v1.worker.gpu_model_runner",
        "vllm.entrypoints.openai.chat_completion.serving",
        "torchaudio.compliance.kaldi",
        "hyperpyyaml",
        "librosa",
        "onnxruntime",
        "soundfile",
    ):
        importlib.import_module(name)
    _share_speech_tokenizer(Path(os.environ["CHECKPOINT"]))
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert not loaded & set(PACKAGES), loaded & set(PACKAGES)


def _share_speech_tokenizer(checkpoint: Path) -> None:
    """Load it once for all forks, and let it remember the prompt's tokens: no patch touches it."""
    import librosa
    import s3tokenizer
    import torch

    model = s3tokenizer.load_model(str(checkpoint / "token2wav/speech_tokenizer_v2_25hz.onnx")).eval()
    quantize, known = model.quantize, {}

    def remembering(mels: Any, lengths: Any) -> Any:
        key = hashlib.sha256(mels.numpy().tobytes()).digest()
        if key not in known:
            known[key] = quantize(mels, lengths)
        return tuple(t.clone() for t in known[key])

    model.quantize = remembering
    s3tokenizer.load_model = lambda _: model
    audio, rate = librosa.load(checkpoint / "assets/default_female.wav", sr=None, mono=True)
    audio = librosa.resample(y=audio, orig_sr=rate, target_sr=16000)
    model.quantize(*s3tokenizer.padding([s3tokenizer.log_mel_spectrogram(torch.from_numpy(audio))]))


def _run(job: dict[str, Any]) -> None:
    sys.path[:0] = [job["tree"], str(HERE)]
    module, _, function = job["check"].rpartition(".")
    try:
        facts = getattr(importlib.import_module(module), function)(**job["arguments"])
    except Exception as error:
        traceback.print_exc()
        facts = {"error": f"{type(error).__name__}: {error}"}
    for name in PACKAGES:
        package = sys.modules.get(name)
        if package is not None:
            assert str(package.__file__).startswith(job["tree"]), package.__file__
    Path(job["out"]).write_text(json.dumps(facts))


def main() -> None:
    """Wait for jobs on stdin; answer each with its exit status on what was stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _preload()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _run(json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # torch takes seconds to unload
