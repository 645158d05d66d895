"""Watch each upstream: what it serves, and whether it answers real requests.

The readiness is the probe's own (`firstword.acceptance.readiness`): a real, judged answer since this
engine started, none needed again while others' requests succeed, and a frozen engine found out. It
blocks, so each upstream has a thread.
"""

import json
import logging
import threading
import urllib.parse
from pathlib import Path

from firstword.acceptance import asking, plain, readiness
from firstword.acceptance.errors import ClientError
from firstword.errors import FirstwordError
from firstword.gateway.settings import Settings
from firstword.gateway.upstreams import Model, Upstream

log = logging.getLogger(__name__)


class Watcher:
    """Keeps one upstream's models and condition up to date.

    Args:
        upstream: What it writes to.
        settings: How often to look, and what to trust.
    """

    def __init__(self, upstream: Upstream, settings: Settings) -> None:
        self._upstream, self._settings = upstream, settings
        name = urllib.parse.quote(urllib.parse.urlsplit(upstream.url).netloc, safe="")
        self._state: Path = settings.state_dir / f"{name}.json"
        self._woken, self._stopped = threading.Event(), threading.Event()
        # A daemon: a readiness request that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._watch, name=f"watch {upstream.host}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that goes on is not waited for."""
        self._stopped.set()
        self._woken.set()

    def look_now(self) -> None:
        """Look at once: a request has found the upstream gone."""
        self._woken.set()

    def look(self) -> None:
        """Look once."""
        try:
            # One that is ready and was started anew, with another model, will not pass the check.
            if not self._upstream.ready:
                self._upstream.tell_models(self._models())
            self._check()
        except (FirstwordError, ClientError) as error:
            self._tell(getattr(error, "cause", str(error)))
        except Exception as error:
            # Whatever an engine answers, its watcher goes on.
            log.exception("looking at %s failed", self._upstream.host)
            self._tell(f"{type(error).__name__}: {error}")
        else:
            self._tell(None)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            self.look()
            self._woken.wait(self._settings.ready_interval)

    def _models(self) -> tuple[Model, ...]:
        status, body = plain.get(self._upstream.url, "/v1/models", timeout=asking.CHECK_SECONDS)
        if status != 200:
            raise asking.not_ready(f"/v1/models says {status}")
        try:
            found = tuple(Model(str(each["id"]), str(each.get("root") or "")) for each in json.loads(body)["data"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise asking.not_ready("/v1/models lists no models in OpenAI's shape") from error
        if not found:
            raise asking.not_ready("it serves no model")
        return found

    def _check(self) -> None:
        settings = self._settings
        server = asking.Server(self._upstream.url, model=self._upstream.models[0].id, timeout=settings.ready_timeout)
        limits = readiness.Limits(fresh=settings.ready_fresh, stall=settings.ready_stall)
        readiness.check(server, state=self._state, limits=limits)

    def _tell(self, cause: str | None) -> None:
        upstream = self._upstream
        news = upstream.tell_ready() if cause is None else upstream.tell_cause(cause)
        if news:
            models = [model.id for model in upstream.models]
            facts = {
                "upstream": upstream.host,
                "address": upstream.address,
                "models": models,
                "state": upstream.condition.state,
                "cause": cause,
            }
            log.info("upstream", extra={"facts": facts})
