"""`firstword bench serve`: what it starts stock with, what it counts, and what it writes. No engine runs here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from firstword.acceptance.answers import Chunk, Speech
from firstword.acceptance.errors import UnreachableError
from firstword.bench.serving import asking, page, plot
from firstword.bench.serving.sides import fitted
from firstword.engine import config as configs


@pytest.mark.parametrize(("family", "shape"), [("qwen3-tts", "cpu"), ("step-audio-2", "speech-cpu")])
def test_stock_keeps_upstreams_settings_but_for_the_devices(family: str, shape: str) -> None:
    stock, ours = fitted(family, shape), configs.load(family, shape).resolved()
    for stage, mine in zip(stock["stages"], ours["stages"], strict=True):
        assert stage["devices"] == mine["devices"] == "0"
        assert stage["kv_cache_memory_bytes"] == mine["kv_cache_memory_bytes"]
        assert "gpu_memory_utilization" not in stage
        assert stage["default_sampling_params"]["max_tokens"] <= stage["max_model_len"]
    assert [stage["max_num_seqs"] for stage in stock["stages"]] == ([64, 64] if family == "qwen3-tts" else [1, 1])


def test_an_underrun_is_audio_that_ran_out() -> None:
    second = bytes(asking.BYTES_PER_SECOND)

    def told(*at: float) -> asking.Answer:
        speech = Speech(second * len(at), None, at[-1], tuple(Chunk(when, second) for when in at))
        return asking.streamed_speech(SimpleNamespace(speech_stream=lambda *_, **__: speech), 1)  # type: ignore[arg-type]

    assert told(0.5, 1.4, 2.0) == asking.Answer(0.5, 2.0, 3.0, 0)
    assert told(0.5, 1.6).underruns == 1


def test_a_round_counts_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: Any, number: int) -> asking.Answer:
        if number == 1:
            raise UnreachableError("gone")
        return asking.Answer(0.1 * (number + 1), 0.5, 1.0, number % 2)

    class Client:
        def __enter__(self) -> "Client":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(asking.usage, "cpu_seconds", lambda _: 3.0)
    side = SimpleNamespace(process=SimpleNamespace(pid=1), client=Client)
    told = asking.ask(side, answer, together=2, requests=4)  # type: ignore[arg-type]
    assert (told.errors, told.underruns, told.real_time_factor, told.first_p95) == (1, 1, 0.5, 0.4)
    both = asking.medians([told, told])
    assert both["errors"] == 2
    assert both["first_p50"] == told.first_p50


def test_the_page_and_the_plot_show_each_workload(tmp_path: Path) -> None:
    figures = dict.fromkeys(
        ("requests_per_second", "audio_per_second", "real_time_factor", "first_p50", "first_p95", "cpu_seconds"), 1.5
    )
    figures |= {"underruns": 0, "errors": 2, "memory": 3e9}
    sides = {"stock": {"median": figures}, "firstword": {"median": figures | {"errors": 0}}}
    report = {
        "date": "2026-11-30",
        "machine": {"cores": 2, "processor": "x", "memory_gb": 23, "load": 0.1, "python": "3.12"},
        "versions": {"vllm-omni": "0.26.0"},
        "pairs": 5,
        "models": {"step-audio-2": {"workloads": {"recognition": {"1": sides, "8": sides}}}},
    }
    row = "| step-audio-2 | recognition | 8 | 1.50 → 1.50 | 1.50 → 1.50 | 1.50 → 1.50 | 1.50 → 1.50 | 1.50 → 1.50 |"
    written = page.page(report, "serve.png")
    assert row + " 0 → 0 | 2 → 0 | 1.5 → 1.5 | 3.0 → 3.0 |" in written
    assert "](serve.png)" in written
    plot.draw(report, tmp_path / "serve.png")
    with Image.open(tmp_path / "serve.png") as image:
        assert image.size == (460, 300)
        assert len(set(image.get_flattened_data() if hasattr(image, "get_flattened_data") else image.getdata())) >= 4
