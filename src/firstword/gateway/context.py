"""What every request handler needs, made once at start."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import httpx
from fastapi import Depends
from starlette.requests import HTTPConnection

from firstword.gateway import errors, logs
from firstword.gateway.admission import Admission
from firstword.gateway.asking import Asker
from firstword.gateway.catalogue import Task
from firstword.gateway.fleet import Fleet
from firstword.gateway.routing import Router, Target
from firstword.gateway.sessions.places import Places
from firstword.gateway.settings import Settings
from firstword.gateway.threads import Threads
from firstword.gateway.uploads import Uploads
from firstword.gateway.upstreams import Upstream
from firstword.gateway.voices.cloning import Cloning
from firstword.gateway.voices.store import Voices

# Where each task is asked for.
_PLACES = {
    "speech": "/v1/audio/speech",
    "chat": "/v1/chat/completions",
    "spoken_answer": '/v1/chat/completions with modalities ["text", "audio"]',
    "transcription": "/v1/audio/transcriptions",
    "translation": "/v1/audio/translations",
}


@dataclass(frozen=True)
class Gateway:
    """The running gateway.

    Attributes:
        settings: As read at start.
        router: The upstreams and which serves what.
        client: Sends to them.
        fleet: The upstreams, each watched.
        admission: Bounds what they get at a time.
        threads: For what computes.
        uploads: Bounds the recordings held.
        voices: Those that were uploaded.
        cloning: Gives them to engines.
        sessions: Bounds the WebSockets open.
    """

    settings: Settings
    router: Router
    client: httpx.AsyncClient
    fleet: Fleet
    admission: Admission
    threads: Threads
    uploads: Uploads
    voices: Voices
    cloning: Cloning
    sessions: Places

    def target(self, request: HTTPConnection, model: Any, task: Task) -> Target:
        """Return what answers a request for ``model``, and note it.

        Raises:
            ProblemError: There is none, it is not ready, or it is not for this task.
        """
        if not isinstance(model, str) or not model:
            raise errors.model_missing(self.router.models())
        facts = logs.facts(request.scope)
        facts.model, facts.kind = model, task
        served, _ = self.router.resolve(model)
        entry = self.router.catalogue.find(served)
        known = self.router.models().get(served)
        entry = self.router.entry(known) if known else entry
        # Said before it is asked whether the model is ready: waiting would not help.
        if entry is not None and task not in entry.tasks:
            places = ", ".join(_PLACES[each] for each in entry.tasks)
            raise errors.ProblemError(
                400,
                f"{model} is not for {_PLACES[task]}; it is for {places}",
                code="unsupported_model",
                param="model",
            )
        target = self.router.target(model)
        facts.served = target.model
        return target

    def asker(self, request: HTTPConnection, target: Target) -> Asker:
        """Return who asks the target's engines."""

        def gone(upstream: Upstream, cause: str) -> errors.ProblemError:
            upstream.tell_cause(cause)
            self.fleet.look_now(upstream)
            return self.router.not_ready(target.model, upstream)

        choose = partial(self.router.choose, target.model)
        return Asker(self.client, choose, logs.facts(request.scope).request_id, gone, self.fleet.look_now)


async def _of(request: HTTPConnection) -> Gateway:  # async, or FastAPI would run it in a thread
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(_of)]
