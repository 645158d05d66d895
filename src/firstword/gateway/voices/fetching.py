"""Fetch a recording that a request names by its address, from hosts on a list and from nowhere else.

The name is resolved once, each address it has must be a public one, and the connection goes to one of those
addresses: a name that resolves to something else a moment later is of no use. No redirects, no proxies.
"""

import ipaddress
import socket
import urllib.parse
from collections.abc import Collection
from dataclasses import dataclass

import anyio
import httpx

from firstword.gateway.errors import ProblemError

_PORTS = {"http": 80, "https": 443}
# Addresses that carry another one inside, which may be private: NAT64, 6to4, Teredo.
_CARRIERS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


@dataclass(frozen=True)
class Fetching:
    """Fetches.

    Attributes:
        hosts: Those that may be asked, in lower case; with a port where it is not the scheme's own.
        limit: Bytes of a recording.
        seconds: That it may take, all together.
    """

    hosts: Collection[str]
    limit: int
    seconds: float

    async def get(self, url: str) -> bytes:
        """Return what is at ``url``.

        Raises:
            ProblemError: It may not be asked for, or did not come whole and in time. The message never tells what
                an address that is not on the list answered, because it was not asked.
        """
        parts, host, port = self._checked(url)
        try:
            with anyio.fail_after(self.seconds):
                address = await self._public_address(host, port)
                return await self._got(parts, address, host, port)
        except TimeoutError as error:
            raise _refused(f"{host} did not send it within {self.seconds:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _refused(f"{host} did not send it ({type(error).__name__})") from error

    def _checked(self, url: str) -> tuple[urllib.parse.SplitResult, str, int]:
        try:
            parts = urllib.parse.urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise _refused("it is no address") from error
        if parts.scheme not in _PORTS or not host:
            raise _refused("it must be a data URL, or an http or https one")
        if parts.username is not None or parts.password is not None:
            raise _refused("an address with a user's name is not taken")
        named = host if port == _PORTS[parts.scheme] else f"{host}:{port}"
        if named not in self.hosts:
            raise _refused(f"{named[:80]} is not among the hosts that recordings are fetched from; send a data URL")
        return parts, host, port

    async def _public_address(self, host: str, port: int) -> str:
        found = await resolve(host, port)
        if not found or not all(is_public(address) for address in found):
            raise _refused(f"{host} has an address that is not a public one")
        return found[0]

    async def _got(self, parts: urllib.parse.SplitResult, address: str, host: str, port: int) -> bytes:
        bare = f"[{address}]" if ":" in address else address
        # To the address itself; the name is for the server, and for its certificate.
        url = parts._replace(netloc=f"{bare}:{port}", fragment="").geturl()
        headers = {"host": parts.netloc, "accept": "audio/*", "accept-encoding": "identity", "user-agent": "firstword"}
        async with (
            httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=self.seconds) as client,
            client.stream("GET", url, headers=headers, extensions={"sni_hostname": host}) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise _refused(f"{host} answered with status {answer.status_code}; redirects are not followed")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise _refused(f"{host} sent it compressed")
            whole = bytearray()
            async for piece in answer.aiter_raw():
                whole += piece
                if len(whole) > self.limit:
                    raise _refused(f"it is longer than {self.limit} bytes, which is the limit")
            return bytes(whole)


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which they are to be tried."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def is_public(address: str) -> bool:
    """Return whether an address is one of the public network, and not one inside another."""
    try:
        told = ipaddress.ip_address(address)
    except ValueError:
        return False  # with a zone, which only a link has
    if isinstance(told, ipaddress.IPv6Address):
        if told.ipv4_mapped is not None:
            return is_public(str(told.ipv4_mapped))
        if any(told in network for network in _CARRIERS):
            return False
    return told.is_global and not told.is_multicast and not told.is_reserved


def _refused(why: str) -> ProblemError:
    return ProblemError(400, f"ref_audio: {why}", code="invalid_reference", param="ref_audio")
