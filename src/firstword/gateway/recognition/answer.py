"""From the pieces' texts to the answer: whole, or as OpenAI's events."""

from functools import partial

from firstword.gateway import events
from firstword.gateway.answering import Answer, Produce
from firstword.gateway.asking import Asker
from firstword.gateway.context import Gateway
from firstword.gateway.recognition import asking_for, transcript
from firstword.gateway.recognition.form import Form
from firstword.gateway.recognition.hearing import Listening
from firstword.gateway.recognition.transcript import Segment
from firstword.gateway.routing import Target


def recognise(gateway: Gateway, asker: Asker, target: Target, form: Form, *, translating: bool) -> Produce:
    """Return what makes the answer.

    Args:
        gateway: The running gateway.
        asker: Asks the engine.
        target: What is asked.
        form: What the client asked for.
        translating: Into English, instead of as it is said.
    """
    fields, catalogue = form.fields, gateway.router.catalogue
    spoken = fields.language or target.language
    tag = catalogue.language(spoken) if spoken else None
    name = catalogue.language_names[tag] if tag else spoken
    body = partial(
        asking_for.body,
        target.model,
        translating=translating,
        language=name,
        prompt=fields.prompt,
        temperature=fields.temperature,
    )

    async def produce(answer: Answer) -> None:
        listening = Listening(gateway.threads, asker, body, gateway.settings.pieces)
        segments: list[Segment] = []
        told = ""
        async with (
            gateway.admission.place(target.model),
            listening.to(form.recording, gateway.settings.audio_limit) as pieces,
        ):
            async for heard in pieces:
                text = ""
                async for part in heard.parts:
                    new = part if text else part.lstrip()
                    if fields.stream and new:
                        new = ("" if text else transcript.joint(told, new)) + new
                        await _delta(answer, new)
                    told += new if fields.stream else ""
                    text += new
                if text.strip():
                    segments.append(Segment(heard.piece.start, heard.piece.end, text.strip()))
        answer.facts.audio_seconds = listening.seconds
        answer.facts.finish_reason = "stop"
        if fields.stream:
            await answer.begin("text/event-stream; charset=utf-8")
            done = {"type": "transcript.text.done", "text": told, "usage": listening.usage.told()}
            await answer.piece(events.pack({**done, "finish_reason": answer.facts.finish_reason}))
            await answer.end()
            return
        whole = transcript.shaped(
            segments,
            fields.response_format,
            translating=translating,
            language="english" if translating else (name or "unknown").lower(),
            seconds=listening.seconds,
            temperature=fields.temperature,
            # OpenAI counts whisper-1's recordings by their seconds, later models' by tokens.
            tokens=None if fields.model.startswith("whisper") else listening.usage.told(),
        )
        await answer.whole(whole, transcript.MEDIA_TYPES[fields.response_format])

    return produce


async def _delta(answer: Answer, text: str) -> None:
    await answer.begin("text/event-stream; charset=utf-8")
    await answer.piece(events.pack({"type": "transcript.text.delta", "delta": text}))
