"""The gateway's settings: environment variables that begin with ``FIRSTWORD_``."""

import difflib
import ipaddress
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from firstword import paths
from firstword.acceptance import state as memory
from firstword.errors import Exit, FirstwordError

PREFIX = "FIRSTWORD_"
# Read elsewhere in firstword, so not unknown.
_OTHERS = frozenset(PREFIX + name for name in ("HOME", "PYTHON", "ROOT", "RUN_DIR"))


def _split(value: object) -> object:
    return tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value


def _split_hosts(value: object) -> object:
    found = _split(value)
    if not isinstance(found, tuple):
        return found
    for host in found:
        if urllib.parse.urlsplit(f"//{host}").netloc != host or "@" in host or "*" in host:
            raise ValueError(f"{host} is not a host such as files.example.org or files.example.org:8443")
    return tuple(host.lower() for host in found)


def _split_keys(value: object) -> object:
    found = _split(value)
    return tuple(map(SecretStr, found)) if isinstance(found, tuple) else found


def _address(url: str) -> str:
    parts = urllib.parse.urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url} is not an address such as http://127.0.0.1:8091")
    if parts.username is not None or parts.query or parts.fragment or parts.path not in ("", "/", "/v1", "/v1/"):
        raise ValueError(f"{url}: only scheme, host and port are taken")
    return f"{parts.scheme}://{parts.netloc}"


Url = Annotated[str, BeforeValidator(_address)]
Urls = Annotated[tuple[Url, ...], NoDecode, BeforeValidator(_split)]
Keys = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split_keys)]
Hosts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_hosts)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class Settings(BaseSettings):
    """Each attribute is set by ``FIRSTWORD_<ATTRIBUTE>``; empty means the default.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.
        publish_address: The address under which others reach the port, where that is not ``host``: a
            container listens everywhere and is published on what its runtime was told.
        upstreams: Engines, separated by commas. What each serves, it is asked.
        optional_upstreams: Engines that may be absent: `/ready` does not wait for them.
        api_keys: Keys that clients may use, separated by commas.
        api_keys_file: A file with one key a line; lines that begin with # are skipped.
        body_limit: Bytes of a request's body.
        upstream_timeout: Seconds without a byte after which an upstream is given up. The longest plain answer,
            5.5 minutes of speech, comes as one piece.
        concurrency: Requests of one model that are with its engines at a time.
        queue: Further requests of one model that may wait; those beyond are told to come back (429).
        speech_deadline: Seconds that a request for speech may take, its wait included.
        chat_deadline: The same for a chat.
        transcription_deadline: The same for a transcription or translation.
        speech_characters: Characters of a text to say.
        sessions: WebSockets that may be open at a time.
        session_idle: Seconds without a message after which one is closed, unless something is being said.
        message_limit: Bytes of a message on one.
        upload_limit: Bytes of a recording to recognise.
        uploads_memory: Bytes of recordings held at a time; those beyond are told to come back (429).
        audio_limit: Seconds of a recording to recognise, once decoded.
        pieces: Pieces of one recording that are recognised at a time.
        decoders: Recordings that are decoded at a time.
        voices_dir: Where uploaded voices are kept; by default ``voices`` in firstword's home.
        voices_limit: Voices that are kept.
        reference_hosts: Hosts that a recording to clone is fetched from when a request names its address,
            separated by commas; none by default.
        reference_limit: Bytes of such a recording, and of one that is uploaded as a voice.
        reference_timeout: Seconds that fetching it may take.
        ready_interval: Seconds between two looks at an upstream.
        ready_timeout: Seconds without a byte after which a readiness request is given up.
        ready_fresh: Seconds for which a good answer is trusted.
        ready_stall: Seconds for which an engine with requests may show no progress.
        stop_timeout: Seconds that requests in flight get to end after SIGTERM.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    publish_address: str | None = None
    upstreams: Urls = ("http://127.0.0.1:8091", "http://127.0.0.1:8092")
    optional_upstreams: Urls = ()
    api_keys: Keys = ()
    api_keys_file: Path | None = None
    body_limit: int = Field(default=25 * 2**20, gt=0)
    upstream_timeout: Seconds = 600.0
    concurrency: Count = 32
    queue: int = Field(default=128, ge=0)
    speech_deadline: Seconds = 900.0
    chat_deadline: Seconds = 900.0
    transcription_deadline: Seconds = 1800.0
    speech_characters: Count = 4096
    sessions: Count = 64
    session_idle: Seconds = 60.0
    message_limit: Count = 4 * 2**20
    upload_limit: Count = 25 * 2**20
    uploads_memory: Count = 256 * 2**20
    audio_limit: Seconds = 7200.0
    pieces: Count = 4
    decoders: Count = 2
    voices_dir: Path | None = None
    voices_limit: Count = 1000
    reference_hosts: Hosts = ()
    reference_limit: Count = 10 * 2**20
    reference_timeout: Seconds = 10.0
    ready_interval: Seconds = 5.0
    ready_timeout: Seconds = 120.0
    ready_fresh: Seconds = 120.0
    ready_stall: Seconds = 60.0
    stop_timeout: Seconds = 30.0

    @model_validator(mode="after")
    def _each_upstream_once(self) -> Self:
        named = [*self.upstreams, *self.optional_upstreams]
        twice = sorted({url for url in named if named.count(url) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        if not self.upstreams:
            raise ValueError("no required upstream is named")
        return self

    @property
    def state_dir(self) -> Path:
        """Where this gateway remembers what it knows of its upstreams."""
        return memory.run_dir() / f"gateway-{self.port}"

    @property
    def voices_folder(self) -> Path:
        """Where uploaded voices are kept."""
        return self.voices_dir or paths.home() / "voices"

    def keys(self) -> tuple[bytes, ...]:
        """Return every key that clients may use.

        Raises:
            FirstwordError: The file cannot be read, or a key is none.
        """
        found = [key.get_secret_value() for key in self.api_keys]
        if self.api_keys_file is not None:
            try:
                lines = self.api_keys_file.read_text(encoding="utf-8").splitlines()
            except (OSError, ValueError) as error:
                raise _wrong(f"FIRSTWORD_API_KEYS_FILE: {error}", "name a file with one key a line") from error
            found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
            if not found:
                raise _wrong(
                    f"FIRSTWORD_API_KEYS_FILE: {self.api_keys_file} holds no key", "put one key a line into it"
                )
        if any(not key.isascii() or not key.isprintable() or " " in key for key in found):
            raise _wrong(
                "a key holds a space or a character that no header can carry",
                "make keys of letters, digits and signs: openssl rand -hex 32",
            )
        return tuple(key.encode() for key in found)

    def require_safe(self) -> None:
        """Raise unless there is a key, or only this machine can reach the port.

        Raises:
            FirstwordError: Neither is so.
        """
        published = self.publish_address or self.host
        if not self.keys() and not is_loopback(published):
            raise _wrong(
                f"the gateway would be published on {published} without a key",
                "set FIRSTWORD_API_KEYS or FIRSTWORD_API_KEYS_FILE; or publish it on 127.0.0.1 and, "
                "where FIRSTWORD_HOST is not that, say so by FIRSTWORD_PUBLISH_ADDRESS",
            )


def load() -> Settings:
    """Read the settings from the environment.

    Raises:
        FirstwordError: A value is wrong; each is named by its variable.
    """
    try:
        return Settings()
    except ValidationError as error:
        faults = []
        for fault in error.errors(include_input=False):
            name = PREFIX + str(fault["loc"][0]).upper() if fault["loc"] else f"{PREFIX}UPSTREAMS"
            faults.append(f"{name}: {fault['msg'].removeprefix('Value error, ')}")
        raise _wrong("; ".join(faults), "correct or unset it; `firstword gateway --help` lists all") from error


def unknown(environment: Mapping[str, str] = os.environ) -> Iterable[str]:
    """Yield one line for each variable that looks like a setting of the gateway and is none."""
    known = sorted(PREFIX + name.upper() for name in Settings.model_fields)
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known and name not in _OTHERS:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            yield f"{name} is no setting of the gateway" + (f"; did you mean {near[0]}?" if near else "")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches what listens on ``host``; any other name is taken as public."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _wrong(cause: str, mend: str) -> FirstwordError:
    return FirstwordError(cause, mend=mend, code=Exit.CONFIG)
