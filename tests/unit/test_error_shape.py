"""The engine's error answers come in OpenAI's shape, and every other answer as it was."""

import asyncio
import json

import pytest

from firstword.engine.error_shape import ErrorShape

JSON = (b"content-type", b"application/json")


def answer(status, *chunks, headers=(JSON,), path="/v1/nope"):
    """Return status, headers and body chunks of what an application answers, as sent through the middleware."""

    async def app(scope, receive, send):
        size = (b"content-length", str(sum(map(len, chunks))).encode())
        await send({"type": "http.response.start", "status": status, "headers": [*headers, size]})
        for index, chunk in enumerate(chunks):
            more = index < len(chunks) - 1
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(ErrorShape(app)({"type": "http", "method": "POST", "path": path}, None, send))
    start, *bodies = sent
    return start["status"], dict(start["headers"]), [message["body"] for message in bodies]


@pytest.mark.parametrize(
    ("status", "body", "message", "kind"),
    [
        (404, {"detail": "Not Found"}, "Not Found: POST /v1/nope", "NotFoundError"),
        (405, {"detail": "Method Not Allowed"}, "Method Not Allowed: POST /v1/nope", "MethodNotAllowedError"),
        (404, {"detail": "no such thing"}, "no such thing", "NotFoundError"),
        (401, {"error": "Unauthorized"}, "Unauthorized", "UnauthorizedError"),
        (422, {"detail": [{"loc": ["body"]}]}, "Unprocessable", "Error"),
        (503, [], "Service Unavailable", "ServiceUnavailableError"),
    ],
)
def test_an_error_is_shaped(status, body, message, kind):
    allow = (b"allow", b"GET")
    got, headers, (shaped,) = answer(status, json.dumps(body).encode(), headers=(JSON, allow))
    error = json.loads(shaped)["error"]
    assert (got, error["code"], error["param"]) == (status, status, None)
    assert error["message"].startswith(message)
    assert error["type"].endswith(kind)
    assert headers[b"content-length"] == str(len(shaped)).encode()
    assert headers[b"allow"] == b"GET"


@pytest.mark.parametrize("body", [b'{"error": {"message": "as it was", "code": 400}}', b"no JSON"])
def test_a_shaped_error_and_no_json_stay(body):
    assert answer(400, body[:9], body[9:])[2] == [body]


def test_answers_pass_through_in_their_pieces():
    assert answer(200, b'{"detail": ', b'"Not Found"}')[2] == [b'{"detail": ', b'"Not Found"}']
    assert answer(500, b"broken", headers=((b"content-type", b"text/plain"),))[2] == [b"broken"]


def test_a_websocket_is_left_alone():
    seen = []

    async def app(scope, receive, send):
        seen.append((scope, receive, send))

    asyncio.run(ErrorShape(app)({"type": "websocket"}, "receive", "send"))
    assert seen == [({"type": "websocket"}, "receive", "send")]
