"""What an answer to any request may be: a success that is one, or a refusal that says why."""

import base64
import json

import httpx
import numpy as np

from firstword.acceptance import events
from firstword.acceptance.audio import UndecodableError, decode
from firstword.acceptance.errors import ApiError

LONGEST = 120.0  # seconds for one answer, however busy the machine


def send(url, path, body):
    """Send a body (a document, or bytes as they are); return the answer's status and what is wrong with it, or None."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        answer = httpx.post(url + path, content=content, headers=headers, timeout=LONGEST, trust_env=False)
    except httpx.HTTPError as error:
        return None, f"no whole answer: {type(error).__name__}: {error}"
    return answer.status_code, fault(answer.status_code, answer.headers.get("content-type", ""), answer.content)


def fault(status, kind, content):
    """Return what is wrong with an answer, or None."""
    if status >= 500:
        return f"HTTP {status}: {content[:300]!r}"
    if status >= 400:
        error = ApiError.from_body(status, content)
        good = error.well_formed and len(error.message) > 5
        return None if good else f"HTTP {status} in another shape: {content[:300]!r}"
    if status != 200:
        return f"HTTP {status}"
    try:
        if kind.startswith("text/event-stream"):
            return _stream(content.decode())
        if kind.startswith("application/json"):
            return _chat(json.loads(content))
        return _sound(content, raw=kind.startswith("audio/pcm"))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return f"HTTP 200 in another shape ({error!r}): {content[:300]!r}"


def _sound(content, *, raw):
    try:
        sound = decode(content, raw=raw)
    except UndecodableError as error:
        return f"HTTP 200 that nothing decodes: {error}: {content[:60]!r}"
    if not len(sound.samples):
        return "HTTP 200 without a sample"
    if not np.isfinite(sound.samples).all():
        return "HTTP 200 with samples that are no numbers"
    return None if float(np.abs(sound.samples).max()) > 1e-4 else f"HTTP 200 and {sound.seconds:.2f} s of silence"


def _chat(document):
    for choice in document["choices"]:
        message = choice["message"]
        sound = message.get("audio")
        wrong = _sound(base64.b64decode(sound["data"]), raw=False) if sound else None
        if wrong:
            return wrong
        if choice["finish_reason"] is None:
            return f"a choice without a reason to finish: {choice}"
    return None if document["choices"] else "no choice"


def _stream(text):
    last = None
    for last in events.read(iter(text.splitlines())):
        if isinstance(last, dict) and "error" in last:
            return f"a stream that failed: {last}"
    whole = last == events.DONE or (isinstance(last, dict) and last.get("type") == "speech.audio.done")
    return None if whole else f"a stream that did not end: {last}"
