"""The gateway beside the engines that `scripts/up` runs. Standard library only."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firstword.native import engines
from firstword.native.engines import Engine


@dataclass(frozen=True)
class Gateway(Engine):
    """The one address: run, logged and stopped as an engine is, but ready when it says so itself."""

    model: str = "gateway"
    port: int = 8000

    def ready(self) -> bool:
        """Return whether every engine behind it has given it a real answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url}/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


def start(gateway: Gateway, environment: Path, behind: Sequence[Engine]) -> "subprocess.Popen[bytes]":
    """Start it before these engines, for this machine alone.

    Raises:
        FirstwordError: Something listens on its port.
    """
    settings = {
        "FIRSTWORD_HOST": "127.0.0.1",
        "FIRSTWORD_PORT": str(gateway.port),
        "FIRSTWORD_UPSTREAMS": ",".join(engine.url for engine in behind),
        "FIRSTWORD_OPTIONAL_UPSTREAMS": "",
        "FIRSTWORD_PUBLISH_ADDRESS": "",
        # The requests that are printed carry no key.
        "FIRSTWORD_API_KEYS": "",
        "FIRSTWORD_API_KEYS_FILE": "",
        "FIRSTWORD_READY_INTERVAL": "1",
    }
    return engines.launch(gateway, [str(environment / "bin/firstword"), "gateway"], settings)
