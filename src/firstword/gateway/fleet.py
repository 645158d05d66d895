"""Every engine behind the gateway. A host's name may have several addresses: each is an engine of its own.

Names are looked up as often as engines are looked at, so an engine that comes later is found and one whose
address is gone is forgotten. A lookup that fails changes nothing: the engines that were there may still be.
"""

import ipaddress
import logging
import socket
import threading
import urllib.parse
from collections.abc import Iterator

from firstword.gateway.readiness import Watcher
from firstword.gateway.settings import Settings
from firstword.gateway.upstreams import Upstream

log = logging.getLogger(__name__)


class Fleet:
    """The engines, each with who watches it.

    Args:
        settings: Which, and how often to look.
    """

    def __init__(self, settings: Settings) -> None:
        self._named = [Named(url, settings, required=True) for url in settings.upstreams]
        self._named += [Named(url, settings, required=False) for url in settings.optional_upstreams]

    def __iter__(self) -> Iterator[Upstream]:
        """Yield every engine there is now, in the order in which they were named."""
        for named in self._named:
            yield from named.members

    def start(self) -> None:
        """Begin to look."""
        for named in self._named:
            named.start()

    def stop(self) -> None:
        """Look no more."""
        for named in self._named:
            named.stop()

    def look_now(self, upstream: Upstream) -> None:
        """Look at one engine at once."""
        for named in self._named:
            named.look_now(upstream)


class Named:
    """What one address in the settings stands for.

    Args:
        url: ``http://host:port``.
        settings: How often to look.
        required: Whether the gateway is unready without it.
    """

    def __init__(self, url: str, settings: Settings, *, required: bool) -> None:
        self._url, self._settings, self._required = url, settings, required
        self.members: tuple[Upstream, ...] = (Upstream(url, required=required),)
        self._watchers: dict[Upstream, Watcher] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to look: at the engine, or first for its addresses."""
        if _is_looked_up(self._url):
            threading.Thread(target=self._follow, name=f"look up {self._url}", daemon=True).start()
        else:
            self._watch(self.members[0])

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        for watcher in [*self._watchers.values()]:
            watcher.stop()

    def look_now(self, upstream: Upstream) -> None:
        """Look at once, if it is one of these."""
        watcher = self._watchers.get(upstream)
        if watcher is not None:
            watcher.look_now()

    def look_up(self) -> None:
        """Take the addresses that the name has now."""
        parts = urllib.parse.urlsplit(self._url)
        try:
            found = addresses(parts.hostname or "", parts.port or 80)
        except (OSError, UnicodeError) as error:
            if not self._watchers:
                cause = getattr(error, "strerror", None) or error
                self.members[0].tell_cause(f"{parts.hostname} has no address ({cause})")
            return
        urls = sorted({_at(parts, address) for address in found})
        known = {upstream.url: upstream for upstream in self._watchers}
        if not urls or sorted(known) == urls:
            return
        for url in urls:
            if url not in known:
                known[url] = Upstream(url, required=self._required, name=parts.netloc)
                # Until it says so itself: an engine that comes back at another address is not another model's.
                known[url].tell_models(self.members[0].models)
                self._watch(known[url])
        self.members = tuple(known[url] for url in urls)
        for url in known.keys() - urls:
            self._watchers.pop(known[url]).stop()
        facts = {"upstream": parts.netloc, "addresses": [upstream.address for upstream in self.members]}
        log.info("addresses", extra={"facts": facts})

    def _follow(self) -> None:
        while True:
            self.look_up()
            if self._stopped.wait(self._settings.ready_interval):
                return

    def _watch(self, upstream: Upstream) -> None:
        watcher = self._watchers[upstream] = Watcher(upstream, self._settings)
        watcher.start()


def addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, of one family: an engine that has one of each is still one.

    Raises:
        OSError: It has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families = [each[0] for each in found]
    family = socket.AF_INET if socket.AF_INET in families else families[0]
    return [str(each[4][0]) for each in found if each[0] == family]


def _is_looked_up(url: str) -> bool:
    """Return whether a host is a name that may have several addresses."""
    parts = urllib.parse.urlsplit(url)
    # A certificate is one of the name.
    if parts.scheme == "https" or parts.hostname in (None, "localhost"):
        return False
    try:
        ipaddress.ip_address(str(parts.hostname))
    except ValueError:
        return True
    return False


def _at(parts: urllib.parse.SplitResult, address: str) -> str:
    bare = f"[{address}]" if ":" in address else address
    return parts._replace(netloc=bare if parts.port is None else f"{bare}:{parts.port}").geturl()
