"""The devices that a config is placed on."""

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True)
class Device:
    """A GPU, or a machine's memory as the one device of kind ``cpu``.

    Attributes:
        kind: ``cuda`` or ``cpu``.
        index: Position among the visible devices of its kind.
        name: For messages.
        total: Bytes.
        free: Bytes not taken now.
    """

    kind: str
    index: int
    name: str
    total: int
    free: int


def gpus(devices: "list[Device] | tuple[Device, ...]") -> list[Device]:
    """Return the GPUs among ``devices`` by index."""
    return sorted((device for device in devices if device.kind == "cuda"), key=lambda device: device.index)
