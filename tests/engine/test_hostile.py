"""Odd requests by the hundred, four at a time: no process ends, and every answer is a success or says its cause.

FIRSTWORD_HOSTILE_REQUESTS says how many to each engine (125), FIRSTWORD_HOSTILE_SEED which ones; by hand, for example
`FIRSTWORD_HOSTILE_REQUESTS=2500 FIRSTWORD_HOSTILE_SEED=7 scripts/test engine -- -k hostile_requests`.
"""

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis
import pytest

from firstword.acceptance.recording import vowels
from hostile import bodies, corpus
from hostile.answers import send

COUNT = int(os.environ.get("FIRSTWORD_HOSTILE_REQUESTS", "125"))
SEED = int(os.environ.get("FIRSTWORD_HOSTILE_SEED", "0"))
AT_ONCE = 4
GROWTH = 256 * 2**20  # bytes of all processes together, after the first fifth
SPEECH, CHAT = "/v1/audio/speech", "/v1/chat/completions"
CUSTOM_VOICE, BASE, STEP = (
    f"{name}-synthetic" for name in ("qwen3-tts-customvoice", "qwen3-tts-base", "step-audio-2-mini")
)
CLONE = {"task_type": "Base", "ref_audio": bodies.REFERENCES[0], "x_vector_only_mode": True}


def on(model, shape, *requests):
    return pytest.param(requests, marks=pytest.mark.engine(model, shape), id=f"{model}-{shape}")


ENGINES = [
    on(CUSTOM_VOICE, "cpu", (SPEECH, bodies.speech(voice="vivian"))),
    on(BASE, "cpu", (SPEECH, bodies.speech(**CLONE))),
    on(STEP, "speech-cpu", (SPEECH, bodies.speech()), (CHAT, bodies.chat())),
    on(STEP, "asr-cpu", (CHAT, bodies.chat())),
]


def generated(strategy, count):
    """Return bodies, the same for the same seed."""
    found = []

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(body):
        found.append(body)

    collect()
    return found


def faults(engine, requests, statuses=None):
    """Send ``(path, body)``s, count the statuses, and return what was wrong with each answer that was wrong."""
    statuses = Counter() if statuses is None else statuses

    def one(request):
        path, body = request
        status, wrong = send(engine.url, path, body)
        statuses[status] += 1
        return wrong and f"{path} {re.sub(r'[A-Za-z0-9+/=]{80,}', '…', repr(body))[:700]}\n    -> {wrong}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [wrong for wrong in pool.map(one, requests) if wrong]


def memory(engine):
    """Return the bytes of all its processes, shared ones counted once."""
    lines = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in engine.processes()]
    return sum(int(text.partition("\nPss:")[2].split()[0]) * 1024 for text in lines)


@pytest.mark.parametrize("requests", ENGINES)
@pytest.mark.usefixtures("same_processes")
def test_hostile_requests(engine, requests):
    told = [(path, body) for path, strategy in requests for body in generated(strategy, COUNT // len(requests))]
    fifth = len(told) // 5
    statuses = Counter()
    wrong = faults(engine, told[:fifth], statuses)
    before = memory(engine)
    wrong += faults(engine, told[fifth:], statuses)
    after = memory(engine)
    grown = after - before
    print(f"{engine.model}: {len(told)} requests of seed {SEED}, answers {dict(statuses)}, wrong {len(wrong)},")
    print(f"{before / 2**20:.0f} MiB after a fifth, {after / 2**20:.0f} MiB at the end, processes {engine.processes()}")
    with engine.client() as client:
        assert client.transcribe(vowels()).text if CHAT in dict(requests) else client.models()
    assert not wrong, f"{len(wrong)} of {len(told)} answers:\n" + "\n".join(wrong[:20])
    assert grown < GROWTH, f"{grown / 2**20:.0f} MiB more after {len(told)} requests"


@pytest.mark.parametrize("requests", ENGINES)
@pytest.mark.usefixtures("same_processes")
def test_hostile_bodies(engine, requests):
    """What is no request at all, and each text and recording of the corpus in a request that is otherwise good."""
    told = [(path, body) for path, _ in requests for body in corpus.BODIES.values()]
    for path, _ in requests:
        if path == SPEECH:
            extra = CLONE if engine.model == BASE else {}
            told += [(path, {"input": text, "max_new_tokens": 4, **extra}) for text in corpus.TEXTS.values()]
        else:
            told += [(path, chat([{"type": "text", "text": text}])) for text in corpus.TEXTS.values()]
            told += [
                (path, chat([{"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}}]))
                for sound in bodies.SOUNDS.values()
            ]
        if engine.model == BASE:
            told += [
                (path, {"input": "Hi.", "max_new_tokens": 4, **CLONE, "ref_audio": ref}) for ref in bodies.REFERENCES
            ]
    wrong = faults(engine, told)
    assert not wrong, f"{len(wrong)} of {len(told)} answers:\n" + "\n".join(wrong)


def chat(parts):
    return {"messages": [{"role": "user", "content": parts}], "modalities": ["text"], "max_tokens": 4}
