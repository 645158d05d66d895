"""Checks with OpenAI's own client, which is what most programs use. The client is in the smoke image."""

import base64
from typing import Any

from firstword.acceptance import kinds
from firstword.acceptance.client import TRANSCRIBE
from firstword.acceptance.errors import ClientError
from firstword.acceptance.first_requests import MOST_FRAMES
from firstword.acceptance.judge import judge_speech, judge_transcript
from firstword.acceptance.smoke.trial import TEXT, CheckFailed, NotApplicable, Trial


def speech(trial: Trial) -> str:
    """Asked through OpenAI's client, the model speaks."""
    if trial.kind != kinds.SPEECH or not trial.voices:
        raise NotApplicable("OpenAI's client asks for a voice by its name, and this model has none")
    body = _call(
        trial,
        lambda client: client.audio.speech.create(
            model=trial.model,
            voice=trial.voices[0],
            input=TEXT,
            response_format="wav",
            extra_body={"seed": 1, "max_new_tokens": MOST_FRAMES},
        ).read(),
    )
    verdict = judge_speech(body, fmt="wav", text=TEXT)
    if not verdict.ok:
        raise CheckFailed(str(verdict))
    return f"{verdict.facts['seconds']:.2f} s of audio"


def recognition(trial: Trial) -> str:
    """Asked through OpenAI's client, the model writes what it hears."""
    sound = {"format": "wav", "data": base64.b64encode(trial.recording).decode()}
    parts = [{"type": "text", "text": TRANSCRIBE}, {"type": "input_audio", "input_audio": sound}]
    answer = _call(
        trial,
        lambda client: client.chat.completions.create(
            model=trial.model, modalities=["text"], seed=1, messages=[{"role": "user", "content": parts}]
        ),
    )
    choice = answer.choices[0]
    verdict = judge_transcript(choice.message.content, choice.finish_reason)
    if not verdict.ok:
        raise CheckFailed(str(verdict))
    return f"{len(choice.message.content)} characters"


def _call(trial: Trial, ask: Any) -> Any:
    try:
        import openai
    except ModuleNotFoundError as error:
        raise NotApplicable("it is not installed here; the smoke image has it") from error
    # A proxy set for the machine's downloads must not come between this and the stack.
    http = openai.DefaultHttpxClient(trust_env=False)
    url, key = f"{trial.url}/v1", trial.api_key or "none"
    try:
        with openai.OpenAI(base_url=url, api_key=key, timeout=trial.timeout, max_retries=0, http_client=http) as client:
            return ask(client)
    except openai.OpenAIError as error:
        raise ClientError(f"OpenAI's client: {' '.join(str(error).split())}") from error
