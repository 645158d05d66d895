"""Which checks a model is given, and how each ends."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from firstword.acceptance import kinds
from firstword.acceptance.errors import ClientError
from firstword.acceptance.smoke import listening, sdk, speaking
from firstword.acceptance.smoke.trial import CheckFailed, NotApplicable, Trial

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"
SPEAKING = (kinds.SPEECH, kinds.VOICE_DESIGN, kinds.VOICE_CLONE)


@dataclass(frozen=True)
class Result:
    """How one check of one model ended.

    Attributes:
        model: Its id.
        check: The check's name.
        outcome: `PASSED`, `FAILED` or `NOT_APPLICABLE`.
        seconds: That the check took.
        detail: What it saw, in one line.
        figures: What it measured on the way, by name.
    """

    model: str
    check: str
    outcome: str
    seconds: float
    detail: str
    figures: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return its JSON form."""
        return asdict(self)


def checks_of(what: tuple[str, ...], formats: tuple[str, ...]) -> Iterator[tuple[str, Callable[[Trial], str]]]:
    """Yield the checks of a model that is for ``what``, by name, in their order."""
    if any(kind in what for kind in SPEAKING):
        yield "speech: first request", speaking.first
        yield "speech: second to tenth request", speaking.second_to_tenth
        for fmt in formats:
            yield f"speech: {fmt}", speaking.a_format(fmt)
        yield "speech: streamed, raw", speaking.streamed("raw", "pcm")
        yield "speech: streamed, events", speaking.streamed("sse", "pcm")
        yield "speech: each voice", speaking.voices
        yield "speech: same seed, same bytes", speaking.same_seed
        yield "speech: eight at once", speaking.eight_at_once
        yield "speech: cancelled, then again", speaking.cancelled
        yield "speech: by OpenAI's client", sdk.speech
        yield "speech: heard again", speaking.round_trip
    if kinds.TRANSCRIPTION in what:
        yield "recognition: transcript", listening.transcript
        yield "recognition: streamed", listening.streamed_transcript
        yield "recognition: no recording", listening.broken_recording
        yield "recognition: by OpenAI's client", sdk.recognition
    if kinds.SPOKEN_ANSWER in what:
        yield "spoken answer", listening.spoken_answer
        yield "spoken answer: streamed", listening.streamed_spoken_answer


def run_checks(trial: Trial, what: tuple[str, ...], *, only: str | None = None) -> Iterator[Result]:
    """Run every check of one model, or those whose name holds ``only``, whatever the others find."""
    for name, check in checks_of(what, trial.formats):
        if only is not None and only not in name:
            continue
        began = time.monotonic()
        trial.figures = {}
        try:
            outcome, detail = PASSED, check(trial)
        except NotApplicable as reason:
            outcome, detail = NOT_APPLICABLE, str(reason)
        except (CheckFailed, ClientError) as error:
            outcome, detail = FAILED, str(error)
        yield Result(trial.model, name, outcome, round(time.monotonic() - began, 2), detail, trial.figures)
