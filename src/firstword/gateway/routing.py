"""Which engine answers a request, by the model that it names."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from firstword.gateway import errors
from firstword.gateway.catalogue import Catalogue, Entry
from firstword.gateway.upstreams import Model, Upstream


@dataclass(frozen=True)
class Target:
    """What answers a request.

    Attributes:
        model: The model's id at its engines.
        upstream: The engine that would be asked now; a request that waits may be asked of another.
        entry: What the catalogue knows of the model, or None.
        language: The tag of the language that the name asked for ended with, or None.
    """

    model: str
    upstream: Upstream
    entry: Entry | None
    language: str | None = None


class Router:
    """Knows every upstream and what each serves.

    Args:
        upstreams: In the order in which they were named; there may be others another time.
        catalogue: What is known of models.
        retry_after: Seconds after which an engine that is not ready may have become so.
    """

    def __init__(self, upstreams: Iterable[Upstream], catalogue: Catalogue, retry_after: float) -> None:
        self._upstreams, self.catalogue = upstreams, catalogue
        self._retry_after = math.ceil(retry_after)

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Every engine there is now."""
        return tuple(self._upstreams)

    def target(self, name: str) -> Target:
        """Return what answers to a model's id or an alias.

        Raises:
            ProblemError: No model of that name is here (404), or none of its upstreams is ready (503).
        """
        model, language = self.resolve(name)
        known = self.models().get(model)
        return Target(model, self.choose(model), self.entry(known) if known else None, language)

    def resolve(self, name: str) -> tuple[str, str | None]:
        """Return the id of the served model that ``name`` means, itself if none, and its language suffix."""
        if self.serving(name):
            return name, None
        named, language = self.catalogue.aliased(name)
        served = self.models()
        found = [
            model.id
            for wanted in named
            for model in served.values()
            if wanted in (model.id, model.root.rstrip("/").rpartition("/")[2])
        ]
        ready = [model for model in found if any(upstream.ready for upstream in self.serving(model))]
        if found:
            return (ready or found)[0], language
        return (named[0] if named else name), language

    def choose(self, model: str, tried: Collection[Upstream] = ()) -> Upstream:
        """Return the ready upstream that serves ``model`` and has the fewest requests, of those not ``tried``.

        Raises:
            ProblemError: No model of that name is here (404), or none of its upstreams is ready (503).
        """
        serving = self.serving(model)
        if not serving:
            raise self._nobody(model)
        ready = [upstream for upstream in serving if upstream.ready and upstream not in tried]
        if not ready:
            raise self.not_ready(model, serving[0])
        return min(ready, key=lambda upstream: upstream.requests)

    def serving(self, model: str) -> list[Upstream]:
        """Return every upstream that serves ``model``, ready or not."""
        return [upstream for upstream in self.upstreams if upstream.serves(model)]

    def models(self) -> dict[str, Model]:
        """Return every model that an upstream has named, by id."""
        return {model.id: model for upstream in reversed(self.upstreams) for model in upstream.models}

    def entry(self, model: Model) -> Entry | None:
        """Return what the catalogue knows of a model, whose engine may have been given another name for it."""
        return self.catalogue.find(model.id, model.root)

    def not_ready(self, model: str, upstream: Upstream) -> errors.ProblemError:
        """Return the error for a model whose upstream gives no answers now."""
        cause = upstream.condition.cause or "it has not answered yet"
        return errors.not_ready(model, cause, self._retry_after)

    def _nobody(self, model: str) -> errors.ProblemError:
        silent = [upstream for upstream in self.upstreams if not upstream.models]
        if silent and self.catalogue.find(model):
            return self.not_ready(model, silent[0])
        return errors.model_not_found(model, self.models())
