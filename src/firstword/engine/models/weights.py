"""Tell from headers whether weight files are whole: safetensors, PyTorch's zip files and ONNX."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from firstword import documents
from firstword.engine.models.locks import is_safe

# Larger headers than this are no headers: safetensors' own limit is 100 MB.
_MAX_HEADER = 100_000_000


def shards(index: Path) -> dict[str, str]:
    """Return which file of the checkpoint an index places each tensor in.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no index, or leads out of the checkpoint.
    """
    content = documents.read_json(index)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places:
        raise ValueError("it holds no weight_map")
    for name, shard in places.items():
        if not isinstance(shard, str) or not is_safe(shard) or not shard.endswith(".safetensors"):
            raise ValueError(f"it places {name} in {shard!r}, which is no safetensors file of the checkpoint")
    return places


def safetensors_fault(path: Path) -> str | None:
    """Return what is wrong with a safetensors file, judged by its header and its size; None when nothing is."""
    state = documents.state(path)
    if state and state != "is empty":
        return f"it {state}"
    size = path.stat().st_size
    try:
        end = 0
        for entry in _header(path).values():
            start, stop = entry["data_offsets"]
            if not 0 <= start <= stop:
                return "its header holds impossible offsets"
            end = max(end, stop)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"it has no safetensors header ({error})"
    with path.open("rb") as file:
        wanted = 8 + int.from_bytes(file.read(8), "little") + end
    if size < wanted:
        return f"it is cut short: {size} bytes of {wanted}"
    if size > wanted:
        return f"it is too long: {size} bytes, its header accounts for {wanted}"
    return None


def tensor_names(path: Path) -> set[str]:
    """Return the names of a safetensors file's tensors.

    Raises:
        ValueError: It has no header.
    """
    return set(_header(path))


def _header(path: Path) -> dict[str, dict[str, list[int]]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= _MAX_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header = documents.parse_json(file.read(length))
    header.pop("__metadata__", None)
    return dict(header)


def torch_fault(path: Path) -> str | None:
    """Return what is wrong with a file of ``torch.save``, judged by the zip directory at its end."""
    if not documents.is_readable(path):  # is_zipfile would call it another file
        return f"it {documents.state(path)}"
    if not zipfile.is_zipfile(path):
        return "it is cut short, or no file of torch.save"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        return f"it is cut short ({error})"
    return None if any(name.endswith("data.pkl") for name in names) else "it is no file of torch.save"


def onnx_fault(path: Path) -> str | None:
    """Return what is wrong with an ONNX file: its outer fields must end where it ends, its graph be there."""
    try:
        with path.open("rb") as file:
            fields = {number for number, _, _ in _fields(file, 0, path.stat().st_size)}
    except ValueError as error:
        return f"it is cut short, or no ONNX file ({error})"
    return None if _GRAPH in fields else "it is no ONNX file: it has no graph"


def onnx_data_files(path: Path) -> dict[str, int]:
    """Return the files beside an ONNX file that hold its weights: name -> bytes needed.

    Raises:
        ValueError: It is no whole ONNX file.
    """
    needed: dict[str, int] = {}
    with path.open("rb") as file:
        for number, start, end in list(_fields(file, 0, path.stat().st_size)):
            if number == _GRAPH:
                for inner, first, last in list(_fields(file, start, end)):
                    if inner == _INITIALIZER:
                        _external(file, first, last, needed)
    return needed


# Field numbers of ONNX's ModelProto, GraphProto, TensorProto and StringStringEntryProto.
_GRAPH = 7
_INITIALIZER = 5
_EXTERNAL_DATA = 13
_KEY, _VALUE = 1, 2


def _external(file: BinaryIO, start: int, end: int, needed: dict[str, int]) -> None:
    pairs: dict[str, str] = {}
    for number, first, last in list(_fields(file, start, end)):
        if number == _EXTERNAL_DATA:
            texts = {inner: _text(file, a, b) for inner, a, b in list(_fields(file, first, last))}
            pairs[texts.get(_KEY, "")] = texts.get(_VALUE, "")
    if "location" in pairs:
        end_of_tensor = int(pairs.get("offset") or 0) + int(pairs.get("length") or 0)
        needed[pairs["location"]] = max(needed.get(pairs["location"], 0), end_of_tensor)


def _text(file: BinaryIO, start: int, end: int) -> str:
    file.seek(start)
    return file.read(end - start).decode("utf-8", "replace")


def _fields(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield a protocol buffer message's fields as (number, start, end) of their content, skipping the content."""
    position = start
    while position < end:
        file.seek(position)
        key, position = _varint(file, position)
        kind = key & 7
        if kind == 0:
            _, stop = _varint(file, position)
        elif kind == 2:
            length, position = _varint(file, position)
            stop = position + length
        elif kind in (1, 5):
            stop = position + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"field of kind {kind} at byte {position}")
        if stop > end:
            raise ValueError(f"a field ends at byte {stop} of {end}")
        yield key >> 3, position, stop
        position = stop


def _varint(file: BinaryIO, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise ValueError(f"no number at byte {position}")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if not byte[0] & 0x80:
            return value, position + shift // 7
