"""Checks on voice cloning: every request gets the voice of its own recording, whatever came before it."""

import asyncio
import base64
import functools
import io
import itertools
import json
import wave
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import soundfile
import torch
from speech_server import answered, ask, builder, recording, server, wire

LOW, HIGH = (recording(pitch=pitch) for pitch in (110.0, 220.0))
MODES: dict[str, dict[str, Any]] = {
    "in context": {"ref_text": "Ah, ee, oh."},
    "other words": {"ref_text": "Something else."},
    "voice alone": {"x_vector_only_mode": True},
}


def labels() -> dict[str, Any]:
    """Send each recording under each label in each mode, twice, in an order in which all follow all."""
    made, stage = server(), builder()
    right = {(wav, mode): _fresh(wav, mode) for wav in (LOW, HIGH) for mode in MODES}
    failed, wrong, total = [], [], 0
    kinds = list(itertools.product((LOW, HIGH), (None, "alice", "bob", " "), MODES))
    for wav, label, mode in [*kinds, *kinds[::-1]]:
        asked = ask(made, task_type="Base", ref_audio=wav, voice=label, **MODES[mode])
        (prompt,) = stage([asked])
        total += 1
        if isinstance(prompt, Exception):
            failed.append(str(prompt))
            continue
        answered(made, asked)
        if not torch.equal(prompt, right[wav, mode]):
            wrong.append((label, mode))
    return {"requests": total, "failed": len(failed), "another's voice": len(wrong), "first failure": failed[:1]}


def uploads() -> dict[str, Any]:
    """Upload a voice, use it, delete it, upload another recording under its name; use inline recordings between."""
    made, stage = server(), builder()
    failed = wrong = 0
    for _, wav in itertools.product(range(2), (LOW, HIGH)):
        _upload(made, wav)
        for fields, mode in (
            ({"voice": "carol"}, "voice alone"),
            ({"voice": "carol", "ref_audio": LOW, "task_type": "Base"}, "in context"),
            ({"voice": "carol", "ref_audio": HIGH, "task_type": "Base"}, "voice alone"),
            ({"voice": "Carol"}, "voice alone"),
        ):
            words = MODES[mode] if "ref_audio" in fields else {}
            asked = ask(made, **fields, **words)
            (prompt,) = stage([asked])
            if isinstance(prompt, Exception):
                failed += 1
                continue
            answered(made, asked)
            wrong += not torch.equal(prompt, _fresh(fields.get("ref_audio", wav), mode))
        asyncio.run(made.delete_voice("carol"))
    return {"failed": failed, "another's voice": wrong}


def _upload(made: Any, wav: str, **fields: Any) -> None:
    data = base64.b64decode(wav.partition(",")[2])
    file = SimpleNamespace(file=io.BytesIO(data), content_type="audio/wav", filename="carol.wav")

    async def read() -> bytes:
        return data

    file.read = read
    asyncio.run(made.upload_voice(file, "consent", "carol", **fields))


_known: dict[tuple[str, str], torch.Tensor] = {}


def _fresh(wav: str, mode: str) -> torch.Tensor:
    """Return the prompt that a server gives which has seen nothing else."""
    if (wav, mode) not in _known:
        stage = _other_stage()
        stage.made._ref_audio_artifact_cache.clear()  # type: ignore[attr-defined]
        stage.made._speaker_cache.clear()  # type: ignore[attr-defined]
        (_known[wav, mode],) = stage([ask(server(), task_type="Base", ref_audio=wav, **MODES[mode])])
    return _known[wav, mode]


_other_stage = functools.cache(builder)


def references() -> dict[str, Any]:
    labelled, uploaded = labels(), uploads()
    return {**labelled, **{f"{key} with uploads": value for key, value in uploaded.items()}}


def many() -> dict[str, Any]:
    """Fill the stage's cache before a request that the endpoint prepared reaches it; mix modes; odd rates."""
    made, stage = server(), builder()
    stage.made._ref_audio_artifact_cache_max_entries = 4  # type: ignore[attr-defined]
    failed = []

    def send(wav: str, mode: str) -> SimpleNamespace:
        return ask(made, task_type="Base", ref_audio=wav, **MODES[mode])

    def run(*requests: SimpleNamespace) -> list[Any]:
        prompts = stage(list(requests))
        for asked, prompt in zip(requests, prompts, strict=True):
            if isinstance(prompt, Exception):
                failed.append(str(prompt))
            else:
                answered(made, asked)
        return prompts

    (first,) = run(send(LOW, "in context"))
    waiting = send(LOW, "in context")
    for pitch in range(130, 180, 10):
        run(send(recording(pitch=float(pitch)), "voice alone"))
    (again,) = run(waiting)
    # Two new references in one step are encoded together, and leave codes without an embedding.
    both = run(*(send(recording(pitch=pitch), "in context") for pitch in (250.0, 260.0)))
    run(*(send(recording(pitch=pitch), mode) for pitch in (250.0, 260.0) for mode in MODES))
    spare = [
        len(asked.prompt["prompt_token_ids"]) - len(prompt)
        for rate in (8000, 11025, 16000, 22050, 24000, 44100, 48000)
        for asked in [send(_at(rate), "in context")]
        for prompt in run(asked)
        if not isinstance(prompt, Exception)
    ]
    return {
        "failed": len(failed),
        "first failure": failed[:1],
        "same after the cache was full": isinstance(again, torch.Tensor) and torch.equal(first, again),
        "together": [isinstance(prompt, torch.Tensor) for prompt in both],
        "spare places in the prompt": spare,
        "bytes a sample": round(len(wire(waiting)) / (1.2 * 24000)),
    }


def _at(rate: int) -> str:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.sin(np.arange(int(1.37 * rate) + 1) * 0.05) * 9000).astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(out.getvalue()).decode()


def bad_recordings() -> dict[str, Any]:
    """Ask with recordings that are none. Return how each ends: the refusal, or what stage 0 makes of it."""
    made, stage = server(), builder()
    sound = np.sin(np.arange(48000) * 0.05).astype(np.float32)
    cases: dict[str, Any] = {
        "nothing": b"",
        "not audio": b"no recording at all" * 100,
        "cut header": base64.b64decode(LOW.partition(",")[2])[:30],
        "1 sample": _file(sound[:1], 24000),
        "no sample": _file(sound[:0], 24000),
        "an hour": _file(np.zeros(3600 * 1000, np.int16), 1000),
        "NaN": _file(np.where(np.arange(48000) == 7, np.nan, sound), 24000),
        "infinite": _file(np.where(np.arange(48000) == 7, np.inf, sound), 24000),
        "too loud": _file(sound * 1e30, 24000),
        "500 Hz": _file(sound[:1000], 500),
        "silence": _file(np.zeros(48000, np.int16), 24000),
        "8 channels": _file(np.repeat(sound[:, None], 8, 1), 24000),
        "192 kHz": _file(np.tile(sound, 8), 192000),
    }
    out = {}
    for name, data in cases.items():
        url = "data:audio/wav;base64," + base64.b64encode(data).decode()
        try:
            asked = ask(made, task_type="Base", ref_audio=url, **MODES["in context"])
        except ValueError:
            out[name] = "refused"
        except Exception as error:
            out[name] = f"raised {type(error).__name__}"
        else:
            (prompt,) = stage([asked])
            out[name] = (
                "spoken" if isinstance(prompt, torch.Tensor) and prompt.isfinite().all() else "broken in stage 0"
            )
    _upload(made, HIGH)
    try:
        _upload(made, "data:," + base64.b64encode(cases["NaN"]).decode())
        out["upload"] = "accepted"
    except ValueError:
        out["upload"] = "refused"
    out["the voice of that name"] = "kept" if "carol" in made.uploaded_speakers else "lost"
    return out


def _file(samples: Any, rate: int) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV", subtype="PCM_16" if samples.dtype == np.int16 else "FLOAT")
    return out.getvalue()


def combinations() -> dict[str, Any]:
    """Every combination of the fields, around four voices: a request is refused, or stage 0 can build its prompt."""
    seen: dict[str, int] = {"requests": 0, "spoken": 0, "ended stage 0": 0, "places left over": 0}
    for voice in ("none", "with words", "without words", "embedding"):
        made, stage = server(), builder()
        if voice == "embedding":
            values = json.dumps([0.01] * made._get_qwen_tts_expected_speaker_embedding_dim())
            asyncio.run(made.upload_voice_embedding(values, "consent", "carol"))
        elif voice != "none":
            _upload(made, LOW, ref_text="Ah, ee, oh." if voice == "with words" else None)
        for task, name, wav, words, alone in itertools.product(
            (None, "Base", "CustomVoice", "VoiceDesign"),
            (None, "carol", "label", ""),
            (None, HIGH, [HIGH]),
            (None, "Ah, ee, oh.", " "),
            (None, True, False),
        ):
            fields = {
                "task_type": task,
                "voice": name,
                "ref_audio": wav,
                "ref_text": words,
                "x_vector_only_mode": alone,
            }
            if task == "VoiceDesign":
                fields["instructions"] = "A warm voice."
            seen["requests"] += 1
            try:
                asked = ask(made, **fields)
            except ValueError:
                continue
            (prompt,) = stage([asked])
            if isinstance(prompt, Exception):
                seen["ended stage 0"] += 1
                continue
            answered(made, asked)
            seen["spoken"] += 1
            seen["places left over"] += len(asked.prompt["prompt_token_ids"]) != len(prompt)
    return {**seen, **_of_other_kinds()}


def _of_other_kinds() -> dict[str, Any]:
    """Ask checkpoints that cannot clone to do it."""
    out: dict[str, Any] = {}
    for kind, speakers in (("custom_voice", {"vivian"}), ("voice_design", set())):
        made = server(kind=kind, speakers=speakers)
        values = json.dumps([0.01] * made._get_qwen_tts_expected_speaker_embedding_dim())
        tries: dict[str, Callable[[], Any]] = {
            "upload": lambda made=made: _upload(made, LOW),
            "embedding": lambda made=made, values=values: asyncio.run(
                made.upload_voice_embedding(values, "c", "carol")
            ),
            "voice": lambda made=made: ask(made, task_type="Base", ref_audio=LOW, x_vector_only_mode=True),
        }
        for name, attempt in tries.items():
            try:
                attempt()
                out[f"{kind} {name}"] = "accepted"
            except ValueError as error:
                out[f"{kind} {name}"] = "refused" if "cannot clone" in str(error) else str(error)
    return out
