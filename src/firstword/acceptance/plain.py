"""One GET with the standard library alone: httpx takes longer to import than the request takes."""

import contextlib
import http.client
import socket
import threading
import urllib.parse

from firstword.acceptance.errors import TimedOutError, UnknownHostError, UnreachableError
from firstword.errors import Exit, FirstwordError


def get(url: str, path: str, *, timeout: float, api_key: str | None = None) -> tuple[int, bytes]:
    """Return status and body of ``path`` on the server at ``url``. No proxy, no redirect.

    Raises:
        FirstwordError: ``url`` is not one.
        UnreachableError: No connection, or it broke.
        TimedOutError: No answer within ``timeout`` seconds.
    """
    secure, host, port = address(url)
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, port, timeout=timeout)
    late = threading.Event()
    wire: socket.socket | None = None

    def give_up() -> None:
        late.set()
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    # A socket's own timeout starts anew with each byte. A little later than that: who sends nothing is told as such.
    timer = threading.Timer(timeout + 0.25, give_up)
    timer.daemon = True
    try:
        connection.connect()
        # The connection forgets its socket when an answer declares no length; the answer reads on from it.
        wire = connection.sock
        timer.start()
        connection.request("GET", path, headers=authorization(api_key))
        response = connection.getresponse()
        status, body = response.status, response.read()
    except TimeoutError as error:
        raise TimedOutError(f"no answer to {path} within {timeout:g} s") from error
    except (socket.gaierror, UnicodeError) as error:
        raise UnknownHostError(f"no host is called {host}") from error
    except (OSError, http.client.HTTPException) as error:
        if late.is_set():
            raise TimedOutError(f"no whole answer to {path} within {timeout:g} s") from error
        raise UnreachableError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
    finally:
        timer.cancel()
        connection.close()
    if late.is_set():  # the end it came to may be our own doing
        raise TimedOutError(f"no whole answer to {path} within {timeout:g} s")
    return status, body


def authorization(api_key: str | None) -> dict[str, str]:
    """Return the headers that carry a key; none for no key.

    Raises:
        FirstwordError: No header can carry it. It is not shown.
    """
    if not api_key:
        return {}
    if not all("!" <= character <= "~" for character in api_key):
        raise FirstwordError(
            "the API key holds a space, a line's end or another character that no HTTP header carries",
            mend="set FIRSTWORD_API_KEY to the key alone, in printable ASCII",
            code=Exit.USAGE,
        )
    return {"Authorization": f"Bearer {api_key}"}


def address(url: str) -> tuple[bool, str, int]:
    """Return whether ``url`` is https, its host and its port.

    Raises:
        FirstwordError: It is no http or https address.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.SplitResult("", "", "", "", ""), None
    if "@" in parts.netloc:
        # A URL stands in logs and lists of processes. It is not shown here either.
        raise FirstwordError(
            f"the address of {parts.hostname or 'the server'} holds a name or a password",
            mend="leave them out of the address; a key is read from FIRSTWORD_API_KEY",
            code=Exit.USAGE,
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FirstwordError(
            f"{url} is not the address of a server", mend="give one such as http://127.0.0.1:8091", code=Exit.USAGE
        )
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80)
