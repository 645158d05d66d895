"""Checks of a model that speaks. Each returns what it saw in one line, or raises `CheckFailed`."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from statistics import median

from firstword.acceptance import kinds
from firstword.acceptance.answers import Speech
from firstword.acceptance.errors import ApiError
from firstword.acceptance.smoke.trial import TEXT, CheckFailed, NotApplicable, Trial
from firstword.acceptance.smoke.words import word_error_rate

MOST_WRONG_WORDS = 0.25
# Of different lengths, so that answers that were mixed up are told by their durations.
SEVERAL = (
    "Yes, of course.",
    "The train leaves at seven.",
    "We walked along the river until it was dark.",
    "Please bring the blue chair to the second room before lunch.",
    "She opened the window and listened to the rain for a while.",
    "Nobody had told him that the shop would be closed on the first Monday of the month.",
    "Good morning to you all.",
    "If the weather holds, we will paint the fence tomorrow and the gate on the day after.",
)
# The second to the ninth request, each with its seed: asked for alone, and then all at once.
ALONE = tuple((SEVERAL[number % len(SEVERAL)], number) for number in range(2, 10))


def first(trial: Trial) -> str:
    """The first request is answered by good speech."""
    answer = trial.once(fmt="wav")
    trial.keep("first.wav", answer.body)
    trial.measured(seconds=answer.seconds, audio_seconds=(lasts := _seconds(answer, "wav")))
    return f"{answer.seconds:.1f} s for {lasts:.1f} s of audio"


def second_to_tenth(trial: Trial) -> str:
    """The second request and the tenth are answered like the first."""
    answers = [trial.once(text, seed=number) for text, number in (*ALONE, (SEVERAL[2], 10))]
    slowest = max(answer.seconds for answer in answers)
    factors = [answer.seconds / _seconds(answer, "pcm") for answer in answers]
    trial.measured(slowest_seconds=slowest, real_time_factor=median(factors))
    return f"the slowest took {slowest:.1f} s"


def a_format(fmt: str) -> Callable[[Trial], str]:
    """Return the check of one format: decoded, it lasts as long as the plain samples."""

    def check(trial: Trial) -> str:
        answer = trial.say(fmt=fmt)
        trial.keep(f"format.{fmt}", answer.body)
        seconds, plain = _seconds(answer, fmt), _seconds(trial.once(), "pcm")
        # An encoder adds its delay and fills its last frame.
        if abs(seconds - plain) > (0.0 if fmt in ("wav", "pcm", "flac") else 0.15):
            raise CheckFailed(f"{seconds:.3f} s, the samples last {plain:.3f} s")
        return f"{seconds:.2f} s in {len(answer.body)} bytes"

    return check


def streamed(how: str, fmt: str) -> Callable[[Trial], str]:
    """Return the check of one way to stream: several chunks, the first before the end, nothing lost."""

    def check(trial: Trial) -> str:
        answer = trial.say(SEVERAL[5], fmt=fmt, streamed=how)
        trial.keep(f"streamed-{how}.{fmt}", answer.body)
        if len(answer.chunks) < 2:
            raise CheckFailed("all of it came in one chunk")
        lasts = _seconds(answer, fmt)
        trial.measured(first_audio_seconds=answer.first_audio, real_time_factor=answer.seconds / lasts)
        if trial.is_synthetic and lasts != (plain := _seconds(trial.once(SEVERAL[5]), "pcm")):
            raise CheckFailed(f"{lasts:.3f} s, the plain answer lasts {plain:.3f} s")
        return f"first audio after {answer.first_audio:.2f} s of {answer.seconds:.2f} s, {len(answer.chunks)} chunks"

    return check


def voices(trial: Trial) -> str:
    """Each listed voice can be used, and none sounds like another; an unknown one is refused.

    Step-Audio-2 has one voice under many names: a few of them must sound the same.
    """
    if trial.kind != kinds.SPEECH:
        raise NotApplicable("its voices are made by the request")
    if not trial.voices:
        raise NotApplicable("it lists no voices")
    tried = trial.voices[:3] if trial.has_one_voice else trial.voices

    def say(voice: str) -> bytes:
        return trial.say(voice=voice).body

    # A batch may round the same request another way, so those that are to sound the same are asked for alone.
    with ThreadPoolExecutor(1 if trial.has_one_voice else 4) as pool:
        said = dict(zip(tried, pool.map(say, tried), strict=True))
    for voice, body in said.items():
        trial.keep(f"voice-{voice}.wav", body)
    if trial.has_one_voice and len(set(said.values())) > 1:
        raise CheckFailed("the one voice sounds another way under another name")
    if not trial.has_one_voice and len(set(said.values())) < len(said):
        raise CheckFailed("two voices sound the same to the last sample")
    refused(trial, "nobody-of-this-name")
    return f"one voice under {len(trial.voices)} names" if trial.has_one_voice else f"{len(said)} voices"


def refused(trial: Trial, voice: str) -> None:
    """Raise unless a voice is refused in OpenAI's shape."""
    try:
        trial.client.speech(TEXT, **{**trial.fields, "voice": voice})
    except ApiError as error:
        if error.status not in (400, 404, 422) or not error.well_formed:
            raise CheckFailed(f"an unknown voice is answered by {error}") from error
        return
    raise CheckFailed("an unknown voice is accepted")


def same_seed(trial: Trial) -> str:
    """Equal requests with equal seeds give the same bytes, and another seed gives others."""
    one, again, other = trial.once(fmt="wav"), trial.say(), trial.say(seed=12)
    if one.body != again.body:
        raise CheckFailed("the same request with the same seed gave other bytes")
    if one.body == other.body:
        raise CheckFailed("another seed gave the same bytes")
    return f"{len(one.body)} bytes, twice"


def eight_at_once(trial: Trial) -> str:
    """Eight requests at once are answered, each by its own speech."""

    def ask(request: tuple[str, int]) -> Speech:
        return trial.say(request[0], fmt="pcm", seed=request[1])

    began = time.monotonic()
    with ThreadPoolExecutor(len(ALONE)) as pool:
        together = list(pool.map(ask, ALONE))
    took = time.monotonic() - began
    if len({answer.body for answer in together}) < len(ALONE):
        raise CheckFailed("two of them were given the same answer")
    lasts = [_seconds(answer, "pcm") for answer in together]
    trial.measured(seconds=took, audio_seconds=sum(lasts), real_time_factor=took / sum(lasts))
    if trial.is_synthetic:
        for answer, seconds, (text, seed) in zip(together, lasts, ALONE, strict=True):
            alone = trial.once(text, seed=seed)
            if seconds != (usual := _seconds(alone, "pcm")):
                trial.keep(f"seed-{seed}-together.pcm", answer.body)
                trial.keep(f"seed-{seed}-alone.pcm", alone.body)
                raise CheckFailed(f"the request with seed {seed} lasts {seconds:.3f} s, alone {usual:.3f} s")
    return f"the slowest took {max(answer.seconds for answer in together):.1f} s"


def cancelled(trial: Trial) -> str:
    """A client that leaves in the middle of its stream changes nothing for the next."""
    before = trial.once(SEVERAL[5])
    for seed in (22, 23, 24):
        wanted = {**trial.fields, "seed": seed}
        with closing(trial.client.iter_speech(SEVERAL[7], fmt="pcm", **wanted)) as stream:
            next(stream)
    after = trial.say(SEVERAL[5], fmt="pcm")
    if before.body != after.body:
        raise CheckFailed("the next request was answered by other bytes than before")
    return "three left, the next had its own bytes"


def round_trip(trial: Trial) -> str:
    """What it says is heard: speech, recognised by the stack's own recognition."""
    listeners = [name for name, what in trial.others.items() if kinds.TRANSCRIPTION in what]
    if trial.is_synthetic or any(name.endswith("-synthetic") for name in listeners):
        raise NotApplicable("made-up weights say no words")
    if not listeners or trial.ask_as is None:
        raise NotApplicable("no model of this stack listens")
    worst = 0.0
    with trial.ask_as(listeners[0]) as ears:
        for number in (3, 5):
            heard = ears.transcribe(trial.say(SEVERAL[number], seed=number).body).text or ""
            worst = max(worst, rate := word_error_rate(SEVERAL[number], heard))
            if rate > MOST_WRONG_WORDS:
                raise CheckFailed(f"word error rate {rate:.2f}: {heard[:80]!r}")
    return f"word error rate {worst:.2f}"


def _seconds(answer: Speech, fmt: str) -> float:
    from firstword.acceptance.audio import decode

    return decode(answer.body, raw=fmt == "pcm").seconds
