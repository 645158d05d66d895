"""The first real request of each kind, and how its answer is judged."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from firstword.acceptance import kinds
from firstword.acceptance.client import Client
from firstword.acceptance.judge import Verdict, judge_speech, judge_transcript

TEXT = "This is the first real answer of the engine."
DESIGN = "A calm, low voice of an older man, speaking slowly."
QUESTION = "Answer this recording in one short spoken sentence."
# Twenty seconds of codec frames: a voice that does not find its end is told by its length, not waited for.
MOST_FRAMES = 256
# About one Qwen3-TTS answer in 250 does not end (QwenLM/Qwen3-TTS#118). Such an answer alone is asked for
# once more with another seed; any other failure counts at once.
SEEDS = (0, 1)


@dataclass(frozen=True)
class FirstRequest:
    """One request of a kind.

    Attributes:
        kind: One of `firstword.acceptance.kinds`.
        name: What it is called in a report; a kind may need more than one request.
        ask: Sends it with the given seed and judges the answer.
    """

    kind: str
    name: str
    ask: Callable[[Client, int], Verdict]

    def answer(self, client: Client) -> Verdict:
        """Ask, and once more where a voice did not find its end."""
        verdict = self.ask(client, SEEDS[0])
        return self.ask(client, SEEDS[1]) if verdict.names == ("too-long",) else verdict


def first_requests(wanted: tuple[str, ...], recording: bytes) -> Iterator[FirstRequest]:
    """Yield the requests of the ``wanted`` kinds; ``recording`` is a WAV for those that send one."""
    url = "data:audio/wav;base64," + base64.b64encode(recording).decode()
    clone = {"task_type": "Base", "ref_audio": url}
    requests = (
        FirstRequest(kinds.SPEECH, "speech", _speech),
        FirstRequest(
            kinds.VOICE_DESIGN,
            "voice design",
            lambda client, seed: _say(client, seed, task_type="VoiceDesign", instructions=DESIGN),
        ),
        FirstRequest(
            kinds.VOICE_CLONE,
            "voice clone",
            lambda client, seed: _say(client, seed, x_vector_only_mode=True, **clone),
        ),
        # In context, the model continues a recording whose text it is told. The made one holds no
        # words, so how long the answer takes tells nothing; that the path works, it does.
        FirstRequest(
            kinds.VOICE_CLONE,
            "voice clone in context",
            lambda client, seed: _say(client, seed, None, ref_text="Ah, ee, oh.", **clone),
        ),
        FirstRequest(kinds.TRANSCRIPTION, "transcription", lambda client, _: _transcribe(client, recording)),
        FirstRequest(
            kinds.SPOKEN_ANSWER, "spoken answer", lambda client, seed: _spoken_answer(client, seed, recording)
        ),
    )
    return (request for request in requests if request.kind in wanted)


def _speech(client: Client, seed: int) -> Verdict:
    voices = client.voices()
    return _say(client, seed, **({"voice": voices[0]} if voices else {}))


def _say(client: Client, seed: int, expected: str | None = TEXT, **fields: Any) -> Verdict:
    answer = client.speech(TEXT, fmt="wav", seed=seed, max_new_tokens=MOST_FRAMES, **fields)
    return judge_speech(answer.body, fmt="wav", text=expected, content_type=answer.content_type)


def _transcribe(client: Client, recording: bytes) -> Verdict:
    reply = client.transcribe(recording)
    return judge_transcript(reply.text, reply.finish_reason)


def _spoken_answer(client: Client, seed: int, recording: bytes) -> Verdict:
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(recording).decode(), "format": "wav"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, sound]},
        # Step-Audio-2 speaks after this mark; without it, it writes.
        {"role": "assistant", "content": "<tts_start>"},
    ]
    reply = client.chat(
        messages, modalities=["audio"], continue_final_message=True, add_generation_prompt=False, seed=seed
    )
    return judge_speech(reply.audio.body if reply.audio else b"", fmt="wav", text=None)
