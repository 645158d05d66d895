"""``WS /v1/audio/speech/stream``: text in as it is written, sound out."""

from fastapi import APIRouter, WebSocket

from firstword.gateway.auth import subprotocol
from firstword.gateway.context import Here
from firstword.gateway.errors import ProblemError
from firstword.gateway.sessions.session import Session

router = APIRouter()


@router.websocket("/v1/audio/speech/stream")
async def speech_stream(socket: WebSocket, gateway: Here) -> None:
    """Serve one connection for as long as it lasts."""
    try:
        with gateway.sessions.one():
            await socket.accept(subprotocol(socket.scope))
            await Session(socket, gateway, socket.app.state.metrics).run()
    except ProblemError as problem:
        await socket.send_denial_response(problem.response())
