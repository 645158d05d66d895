"""Checks of a model that listens. Each returns what it saw in one line, or raises `CheckFailed`."""

import base64
from typing import Any

from firstword.acceptance.answers import Reply
from firstword.acceptance.errors import ApiError
from firstword.acceptance.first_requests import QUESTION
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.acceptance.smoke.trial import CheckFailed, Trial


def transcript(trial: Trial) -> str:
    """A recording is answered by a transcript that ends."""
    reply = trial.client.transcribe(trial.recording, seed=1)
    trial.measured(seconds=reply.seconds)
    return f"{len(_good(reply))} characters"


def streamed_transcript(trial: Trial) -> str:
    """Streamed, the transcript comes in pieces and is the same."""
    plain = _good(trial.client.transcribe(trial.recording, seed=1, temperature=0))
    reply = trial.client.transcribe(trial.recording, stream=True, seed=1, temperature=0)
    if _good(reply) != plain:
        raise CheckFailed("streamed, the text is another")
    if reply.deltas < 2:
        raise CheckFailed("all of it came in one piece")
    return f"{reply.deltas} pieces"


def spoken_answer(trial: Trial) -> str:
    """A recording is answered by speech."""
    return _spoken(trial, _conversation(trial, stream=False), streamed=False)


def streamed_spoken_answer(trial: Trial) -> str:
    """Streamed, the spoken answer comes in pieces."""
    return _spoken(trial, _conversation(trial, stream=True), streamed=True)


def broken_recording(trial: Trial) -> str:
    """What is no recording is refused in OpenAI's shape, and the next request is answered."""
    try:
        trial.client.transcribe(b"this is no recording at all")
    except ApiError as error:
        if error.status >= 500 or not error.well_formed:
            raise CheckFailed(f"what is no recording is answered by {error}") from error
        _good(trial.client.transcribe(trial.recording, seed=1))
        return f"refused with {error.status}"
    raise CheckFailed("what is no recording is accepted")


def _conversation(trial: Trial, *, stream: bool) -> Reply:
    sound = {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(trial.recording).decode(), "format": "wav"},
    }
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, sound]},
        # Step-Audio-2 speaks after this mark; without it, it writes.
        {"role": "assistant", "content": "<tts_start>"},
    ]
    ask = trial.client.chat_stream if stream else trial.client.chat
    # Streamed as WAV, each piece would be a file of its own.
    fields = {"audio": {"format": "pcm16"}} if stream else {}
    return ask(
        messages, modalities=["audio"], continue_final_message=True, add_generation_prompt=False, seed=1, **fields
    )


def _spoken(trial: Trial, reply: Reply, *, streamed: bool) -> str:
    if reply.audio is None:
        raise CheckFailed("the answer holds no audio")
    fmt = "pcm" if streamed else "wav"
    trial.keep(f"{'streamed-' if streamed else ''}spoken-answer.{fmt}", reply.audio.body)
    verdict = judge_speech(reply.audio.body, fmt=fmt, text=None)
    if not verdict.ok:
        raise CheckFailed(str(verdict))
    if streamed and len(reply.audio.chunks) < 2:
        raise CheckFailed("all of it came in one chunk")
    lasts = float(verdict.facts["seconds"])
    trial.measured(real_time_factor=reply.seconds / lasts)
    if streamed:
        trial.measured(first_audio_seconds=reply.audio.first_audio)
    return f"{verdict.facts['seconds']} s of audio in {reply.audio.seconds:.1f} s"


def _good(reply: Reply) -> str:
    verdict = judge_transcript(reply.text, reply.finish_reason)
    if not verdict.ok:
        raise CheckFailed(str(verdict))
    return reply.text or ""
