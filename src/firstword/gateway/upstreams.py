"""The engines behind the gateway: what each serves, how it is, and how much it has to do."""

import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["starting", "ready", "not_ready"]
# How requests to an engine went: it began to answer, it did not, or it broke off in the midst.
Result = Literal["begun", "not_begun", "broke_off"]


@dataclass(frozen=True)
class Model:
    """One model of an engine.

    Attributes:
        id: What requests call it.
        root: The checkpoint that the engine says it is, or an empty string.
        since: When the gateway first saw it, in whole seconds since the epoch.
    """

    id: str
    root: str = ""
    since: int = 0


@dataclass(frozen=True)
class Condition:
    """How an engine is.

    Attributes:
        state: ``starting`` until its first good answer, then ``ready`` or ``not_ready``.
        since: When that began, in seconds since the epoch.
        cause: Why it was last not ready; kept once it is ready again.
    """

    state: State
    since: float
    cause: str | None = None


class Upstream:
    """One engine's address.

    Written by its watcher's thread and, when a request finds it gone, by the event loop; each write
    replaces one immutable value, so readers need no lock.

    Args:
        url: ``http://host:port``.
        required: Whether the gateway is unready without it.
        name: Host and port as they are set, where the url holds one of the addresses that the host has.
    """

    def __init__(self, url: str, *, required: bool = True, name: str | None = None) -> None:
        self.url, self.required, self._name = url, required, name
        self.models: tuple[Model, ...] = ()
        self.condition = Condition("starting", time.time())
        self.requests = 0
        self.results: Counter[Result] = Counter()

    @property
    def host(self) -> str:
        """Host and port, as they are set."""
        return self._name or urllib.parse.urlsplit(self.url).netloc

    @property
    def address(self) -> str:
        """The host that is connected to: of several engines under one name each has its own."""
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def ready(self) -> bool:
        """Whether it has given a good answer since its start, and nothing tells that it stopped."""
        return self.condition.state == "ready"

    def serves(self, model: str) -> bool:
        """Return whether it said so, now or before it went away."""
        return any(model == known.id for known in self.models)

    def tell_models(self, found: tuple[Model, ...]) -> None:
        """Take what the engine says it serves; what it served already keeps its time."""
        since = {model.id: model.since for model in self.models}
        now = int(time.time())
        self.models = tuple(replace(model, since=since.get(model.id, now)) for model in found)

    def tell_ready(self) -> bool:
        """Take that it is ready; return whether that is news."""
        before = self.condition
        if before.state == "ready":
            return False
        self.condition = Condition("ready", time.time(), before.cause)
        return True

    def tell_cause(self, cause: str) -> bool:
        """Take that it is not ready and why, with its own address left out; return whether that is news."""
        before = self.condition
        cause = cause.removeprefix(self.url).lstrip(": ")
        state: State = "starting" if before.state == "starting" else "not_ready"
        self.condition = Condition(state, before.since if before.state == state else time.time(), cause)
        return before.state != state or before.cause != cause

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count one request for as long as it lasts."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
