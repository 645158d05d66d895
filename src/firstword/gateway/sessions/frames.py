"""An answer's body as frames of a WebSocket."""

from fastapi import WebSocket
from starlette.types import Message


class Frames:
    """Takes ASGI's messages of an HTTP answer and sends its body as binary frames.

    Args:
        socket: Where to.
        whole: In one frame, at its end, instead of as it comes.

    Attributes:
        bytes: How many were sent.
    """

    def __init__(self, socket: WebSocket, *, whole: bool) -> None:
        self._socket, self._whole = socket, whole
        self._held = bytearray()
        self.bytes = 0

    async def send(self, message: Message) -> None:
        """Take one message."""
        self._held += message.get("body", b"")
        if self._held and (not self._whole or not message.get("more_body", False)):
            self.bytes += len(self._held)
            data, self._held = bytes(self._held), bytearray()
            await self._socket.send_bytes(data)
