"""The gateway as one ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import metadata

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp

from firstword.gateway import errors
from firstword.gateway.admission import Admission
from firstword.gateway.api import chat, described, health, metrics, models, recognition, speech, speech_stream, voices
from firstword.gateway.auth import KeyGuard
from firstword.gateway.catalogue import Catalogue
from firstword.gateway.context import Gateway
from firstword.gateway.fleet import Fleet
from firstword.gateway.logs import RequestLog
from firstword.gateway.metrics import Metrics
from firstword.gateway.routing import Router
from firstword.gateway.sessions.places import Places
from firstword.gateway.settings import Settings
from firstword.gateway.threads import Threads
from firstword.gateway.uploads import Uploads
from firstword.gateway.voices.cloning import Cloning
from firstword.gateway.voices.fetching import Fetching
from firstword.gateway.voices.store import Voices

_ABOUT = """Step-Audio-2 and Qwen3-TTS at one OpenAI-compatible address.

WS /v1/audio/speech/stream takes a text while it is written and speaks vLLM-Omni's protocol."""


def create(settings: Settings, catalogue: Catalogue) -> ASGIApp:
    """Return the application. It watches its upstreams from its start to its end."""
    app = FastAPI(
        title="firstword",
        version=metadata.version("firstword"),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.settings, app.state.catalogue = settings, catalogue
    app.state.fleet, app.state.admission = Fleet(settings), Admission(settings.concurrency, settings.queue)
    app.state.metrics = Metrics(app.state.admission, app.state.fleet)
    for area in (speech, speech_stream, recognition, chat, voices, models, health, metrics):
        app.include_router(area.router)
    described.describe(app, keys=bool(settings.keys()))
    errors.handle_in(app)
    return RequestLog(KeyGuard(app, settings.keys()), app.state.metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    fleet: Fleet = app.state.fleet
    router = Router(fleet, app.state.catalogue, settings.ready_interval)
    async with _client(settings) as client:
        threads, voices = Threads(settings.decoders), Voices(settings.voices_folder, settings.voices_limit)
        fetching = Fetching(settings.reference_hosts, settings.reference_limit, settings.reference_timeout)
        app.state.gateway = Gateway(
            settings=settings,
            router=router,
            client=client,
            fleet=fleet,
            admission=app.state.admission,
            threads=threads,
            uploads=Uploads(settings.uploads_memory),
            voices=voices,
            cloning=Cloning(voices, fetching, threads),
            sessions=Places(settings.sessions),
        )
        fleet.start()
        try:
            yield
        finally:
            fleet.stop()


def _client(settings: Settings) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=httpx.Timeout(settings.upstream_timeout, connect=5.0, pool=None),
        # A connection for each request: one that is kept may be closed by the engine just when it is used
        # again, and a POST that ended so cannot be repeated.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        # One client serves everybody: a cookie that an engine set for one must not be sent with another's request.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        # A proxy set for the machine's downloads must not come between the gateway and its engines.
        trust_env=False,
    )
