"""Send the first real requests to a server and judge its answers. httpx, numpy and av are imported on use."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firstword import documents
from firstword.acceptance import kinds as known_kinds
from firstword.acceptance import load, plain
from firstword.acceptance.arguments import read_recording
from firstword.acceptance.errors import ApiError, ClientError, MalformedError, UnknownHostError
from firstword.errors import Exit, FirstwordError

CHECK_SECONDS = 5.0  # for /health and /metrics, which cost a server nothing


@dataclass(frozen=True)
class Server:
    """A server to probe.

    Attributes:
        url: Its address, ``http://host:port``.
        model: The model to ask for; None for the first it lists.
        kinds: The kinds to ask for; None for those that the model's name tells.
        api_key: Its key, or None.
        timeout: Seconds without a byte after which a real request is given up.
        recording: A WAV to use for kinds that send one; None for a made one.
    """

    url: str
    model: str | None = None
    kinds: tuple[str, ...] | None = None
    api_key: str | None = None
    timeout: float = 120.0
    recording: Path | None = None

    def health(self) -> None:
        """Ask ``/health``.

        Raises:
            FirstwordError: No answer in time, or not 200 (``Exit.NOT_READY``).
        """
        try:
            status, _ = plain.get(self.url, "/health", timeout=CHECK_SECONDS, api_key=self.api_key)
        except ClientError as error:
            raise not_ready(f"{self.url}: {error}", error) from error
        if status != 200:
            raise not_ready(f"{self.url}: /health says {status}")

    def load(self) -> load.Load | None:
        """Return what ``/metrics`` tells; None where the server tells nothing of an engine (a gateway)."""
        try:
            status, body = plain.get(self.url, "/metrics", timeout=CHECK_SECONDS, api_key=self.api_key)
        except ClientError as error:
            raise not_ready(f"{self.url}/metrics: {error}", error) from error
        page = body.decode("utf-8", "replace")
        return load.read(page) if status == 200 and ("vllm" in page or "process_start_time_seconds" in page) else None


@dataclass(frozen=True)
class Answer:
    """How one request was answered."""

    name: str
    ok: bool
    seconds: float
    detail: str
    failures: tuple[str, ...]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Report:
    """How all requests to a server were answered."""

    url: str
    model: str
    answers: tuple[Answer, ...]

    @property
    def ok(self) -> bool:
        """Whether every answer was good."""
        return all(answer.ok for answer in self.answers)

    def __str__(self) -> str:
        return "; ".join(f"{answer.name}: {answer.detail}" for answer in self.answers)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form that ``--json`` prints."""
        return {"ok": self.ok, **asdict(self)}

    def require_ok(self) -> None:
        """Raise `FirstwordError` (``Exit.BAD_ANSWER``) for the first answer that is not good."""
        for answer in self.answers:
            if not answer.ok:
                raise FirstwordError(
                    f"{self.model} gave a bad answer to its first request: {answer.name}: {answer.detail}",
                    mend="check the checkpoint and the patches (firstword preflight); its log tells more",
                    code=Exit.BAD_ANSWER,
                )


def ask(server: Server) -> Report:
    """Send the first real request of each kind and judge what comes back.

    Raises:
        FirstwordError: The server cannot be reached (``Exit.NOT_READY``), its list of models is none
            (``Exit.BAD_ANSWER``), no kind is known for its model or the recording cannot be read
            (``Exit.USAGE``). A bad answer is in the report and raises nothing.
    """
    from firstword.acceptance.client import Client
    from firstword.acceptance.first_requests import first_requests
    from firstword.acceptance.recording import vowels

    plain.address(server.url)
    recording = read_recording(server.recording) if server.recording else vowels()
    try:
        with Client(server.url, server.api_key, server.timeout, model=server.model) as client:
            wanted = server.kinds or _kinds(server, client.model)
            answers = [_timed(request, client) for request in first_requests(wanted, recording)]
            return Report(server.url, client.model, tuple(answers))
    except MalformedError as error:
        raise FirstwordError(
            f"{server.url}: {error}",
            mend="check that an engine or the gateway listens there, and not another program",
            code=Exit.BAD_ANSWER,
        ) from error
    except ClientError as error:
        raise not_ready(f"{server.url}: {error}", error) from error


def not_ready(cause: str, error: ClientError | None = None) -> FirstwordError:
    """Return the error of a server that is not ready, yet or any more."""
    if isinstance(error, UnknownHostError):
        return FirstwordError(cause, mend="check the host's name in the address", code=Exit.NOT_READY)
    return FirstwordError(
        cause,
        mend="while it starts, wait (firstword probe --wait 300 URL); once ready, look into its log",
        code=Exit.NOT_READY,
    )


def _timed(request: Any, client: Any) -> Answer:
    start = time.perf_counter()
    try:
        verdict = request.answer(client)
    except ApiError as error:
        # The server took the request and said no: it is up, and this is its answer.
        return Answer(request.name, ok=False, seconds=_since(start), detail=str(error), failures=("error",), facts={})
    except MalformedError as error:
        seconds = _since(start)
        return Answer(request.name, ok=False, seconds=seconds, detail=str(error), failures=("malformed",), facts={})
    facts = dict(verdict.facts)
    seconds = _since(start)
    if not verdict.ok:
        return Answer(request.name, False, seconds, str(verdict), verdict.names, facts)
    what = f"{facts['seconds']:.2f} s of audio" if "seconds" in facts else f"{facts['characters']} characters"
    return Answer(request.name, ok=True, seconds=seconds, detail=f"{what} in {seconds:.1f} s", failures=(), facts=facts)


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _kinds(server: Server, model: str) -> tuple[str, ...]:
    _, body = plain.get(server.url, "/v1/models", timeout=CHECK_SECONDS, api_key=server.api_key)
    names = [model, *_roots(body)]
    seen = server.load()
    # One stage alone is recognition without speech; nothing else in the API tells.
    has_audio_out = seen is None or seen.stages != 1
    found = known_kinds.kinds_of(*names, has_audio_out=has_audio_out)
    if not found:
        raise FirstwordError(
            f"nothing tells what {model} is for",
            mend=f"say it with --kind ({', '.join(known_kinds.ALL)})",
            code=Exit.USAGE,
        )
    return found


def _roots(body: bytes) -> list[str]:
    try:
        listed = documents.parse_json(body)
    except ValueError:
        return []
    entries = listed.get("data") if isinstance(listed, dict) else None
    return [
        entry["root"]
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("root"), str)
    ]
