"""Two rows of docs/troubleshooting.md's table, live on stock vLLM-Omni: the first misleading failure and the last."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from firstword import paths
from firstword.engine.stock_failures import document
from firstword.engine.stock_failures.observe import Seen, observe
from firstword.engine.stock_failures.rows import row

MODEL = "step-audio-2-mini-synthetic"


@pytest.fixture
def see(tmp_path):
    def see(key: str) -> Seen:
        checkpoint = paths.home() / "checkpoints" / MODEL
        if not (checkpoint / "config.json").exists():
            firstword = paths.home() / "engine/bin/firstword"
            subprocess.run([str(firstword), "synthetic", MODEL, str(checkpoint)], check=True)
        spec = importlib.util.find_spec("vllm_omni")
        return observe(
            row(key),
            site_packages=Path(spec.submodule_search_locations[0]).parent,
            checkpoint=checkpoint,
            scratch=tmp_path,
            warm_cache=None,
        )

    return see


def recorded(key: str) -> Seen:
    return Seen(**document.read()["rows"][key]["stock"])


def test_without_librosa_stock_blames_the_models_configuration(see):
    seen, before = see("librosa"), recorded("librosa")
    assert (seen.stage, seen.health) == (before.stage, before.health) == ("start", "refused")
    assert "Model architectures ['StepAudio2ThinkerForConditionalGeneration'] failed to be inspected" in seen.last_words
    assert seen.true_cause == before.true_cause == "ModuleNotFoundError: No module named 'librosa'"
    assert seen.lines_above > 40


def test_without_cosyvoice2_stock_is_healthy_and_dies_at_the_first_speech_request(see):
    seen, before = see("cosyvoice2"), recorded("cosyvoice2")
    assert (seen.stage, seen.health, seen.after) == (before.stage, before.health, before.after)
    assert (seen.stage, seen.health, seen.after) == ("request", "200", "exited")
    assert seen.answer.startswith("HTTP 500")
    assert seen.true_cause == before.true_cause
    assert "There is no such class as cosyvoice2.flow.flow.CausalMaskedDiffWithXvec" in seen.true_cause
