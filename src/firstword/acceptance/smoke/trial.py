"""What a check is given: a model to ask, how to ask it, and where its sounds are kept."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from firstword.acceptance import kinds
from firstword.acceptance.answers import Speech
from firstword.acceptance.client import Client
from firstword.acceptance.first_requests import DESIGN, MOST_FRAMES
from firstword.acceptance.judge import Verdict, judge_speech

TEXT = "Please bring the blue chair to the second room before lunch."
# Another seed where a voice did not find its end, as about one answer of Qwen3-TTS in 250 (QwenLM/Qwen3-TTS#118).
OTHER_SEED = 7000


class CheckFailed(Exception):  # noqa: N818  # an outcome, not an error
    """A check did not pass; the message is one line."""


class NotApplicable(Exception):  # noqa: N818  # an outcome, not an error
    """A check says nothing about this stack; the message says why."""


@dataclass
class Trial:
    """One model of the stack under test.

    Attributes:
        client: Asks for ``model``.
        url: The server's address, without ``/v1``.
        model: Its id.
        kind: How it is asked for speech, one of `firstword.acceptance.kinds`; None when it does not speak.
        formats: The formats it must offer.
        recording: A WAV, for requests that send one.
        keep: Called with a file's name and its bytes.
        others: The model ids of the stack with what each is for.
        ask_as: Returns a client for another model of the stack.
        has_one_voice: Whether every name it lists is the same voice.
        api_key: The server's key, or None.
        timeout: Seconds without a byte after which a request is given up.
        figures: What the check that runs has measured so far.
    """

    client: Client
    url: str
    model: str
    kind: str | None
    formats: tuple[str, ...]
    recording: bytes
    keep: Callable[[str, bytes], None]
    others: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ask_as: Callable[[str], Client] | None = None
    has_one_voice: bool = False
    api_key: str | None = None
    timeout: float = 120.0
    figures: dict[str, float] = field(default_factory=dict)
    _answers: dict[tuple[str, str, int], Speech] = field(default_factory=dict)

    @property
    def is_synthetic(self) -> bool:
        """Whether its weights are made up: its words mean nothing, and a batch rounds them no other way."""
        return self.model.endswith("-synthetic")

    @cached_property
    def voices(self) -> list[str]:
        """The voices it lists."""
        return self.client.voices() if self.kind == kinds.SPEECH else []

    @cached_property
    def fields(self) -> dict[str, Any]:
        """What a request for speech needs beside the text."""
        if self.kind == kinds.VOICE_DESIGN:
            return {"task_type": "VoiceDesign", "instructions": DESIGN}
        if self.kind == kinds.VOICE_CLONE:
            url = "data:audio/wav;base64," + base64.b64encode(self.recording).decode()
            return {"task_type": "Base", "ref_audio": url, "x_vector_only_mode": True}
        return {"voice": self.voices[0]} if self.voices else {}

    def say(
        self, text: str = TEXT, *, fmt: str = "wav", seed: int = 1, streamed: str | None = None, **fields: Any
    ) -> Speech:
        """Return good speech.

        Args:
            text: What to say.
            fmt: The format asked for.
            seed: The request's seed.
            streamed: None for a plain answer, ``raw`` or ``sse``.
            **fields: Further fields, over `fields`.

        Raises:
            CheckFailed: It is not good; the sound is kept.
            ClientError: There was no answer.
        """
        answer, verdict = self._ask(text, fmt, seed, streamed, fields)
        if verdict.names == ("too-long",):
            answer, verdict = self._ask(text, fmt, seed + OTHER_SEED, streamed, fields)
        if not verdict.ok:
            self.keep(f"bad-{'-'.join(verdict.names)}.{fmt}", answer.body)
            raise CheckFailed(str(verdict))
        return answer

    def once(self, text: str = TEXT, *, fmt: str = "pcm", seed: int = 1) -> Speech:
        """Return the plain answer to a request, which is asked for once in all checks.

        Raises:
            CheckFailed: It is not good.
            ClientError: There was no answer.
        """
        request = (text, fmt, seed)
        if request not in self._answers:
            self._answers[request] = self.say(text, fmt=fmt, seed=seed)
        return self._answers[request]

    def measured(self, **figures: float) -> None:
        """Note figures of the check that runs, to the millisecond."""
        self.figures |= {name: round(value, 3) for name, value in figures.items()}

    def _ask(
        self, text: str, fmt: str, seed: int, streamed: str | None, fields: dict[str, Any]
    ) -> tuple[Speech, Verdict]:
        wanted = {"seed": seed, "max_new_tokens": MOST_FRAMES, **self.fields, **fields}
        if streamed:
            answer = self.client.speech_stream(text, fmt=fmt, sse=streamed == "sse", **wanted)
        else:
            answer = self.client.speech(text, fmt=fmt, **wanted)
        kind = None if streamed == "sse" else answer.content_type
        return answer, judge_speech(answer.body, fmt=fmt, text=text, content_type=kind, streamed=bool(streamed))
