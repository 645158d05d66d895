"""What every request handler needs, made once at start."""

from dataclasses import dataclass
from typing import Annotated

import httpx
from fastapi import Depends, Request
from starlette.responses import Response

from firstword.gateway import bodies, errors, logs, relay
from firstword.gateway.readiness import Watcher
from firstword.gateway.routing import Router
from firstword.gateway.settings import Settings
from firstword.gateway.upstreams import Upstream


@dataclass(frozen=True)
class Gateway:
    """The running gateway.

    Attributes:
        settings: As read at start.
        router: The upstreams and which serves what.
        client: Sends to them.
        watchers: One for each upstream.
    """

    settings: Settings
    router: Router
    client: httpx.AsyncClient
    watchers: dict[Upstream, Watcher]

    async def relay(self, request: Request) -> Response:
        """Return the answer of the engine that serves the model in the body, to be asked at the same path.

        Raises:
            ProblemError: The body is none, its model is not here, or not ready.
        """
        body = await bodies.read(request, self.settings.body_limit)
        model = body.fields.get("model")
        if not isinstance(model, str) or not model:
            raise errors.model_missing(self.router.models())
        facts = logs.facts(request.scope)
        facts.model = model
        upstream = self.router.choose(model)

        def gone(cause: str) -> errors.ProblemError:
            upstream.tell_cause(cause)
            self.watchers[upstream].look_now()
            return self.router.not_ready(model, upstream)

        headers = relay.sent_on(request.headers, facts.request_id)
        path = request.url.path
        return relay.Relay(self.client, upstream, path=path, content=body.raw, headers=headers, gone=gone)


async def _of(request: Request) -> Gateway:  # async, or FastAPI would run it in a thread
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(_of)]
