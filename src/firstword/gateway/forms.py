"""Read a form with one recording, within its limits."""

from collections.abc import AsyncGenerator

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from firstword.gateway import bodies, errors
from firstword.gateway.errors import ProblemError

# Beside the recording: a prompt, names, boundaries.
_FORM_BYTES = 1 << 20


class _InMemory(MultiPartParser):
    """Keeps the recording in memory, where its length is bounded; there may be no disk to write to."""

    spool_max_size = 2**62


async def read(request: Request, limit: int, file: str = "file") -> tuple[dict[str, list[str]], bytes]:
    """Return the form's text fields, each with all its values, and the recording.

    Args:
        request: The request.
        limit: Bytes of the recording.
        file: The name of the field that holds it.

    Raises:
        ProblemError: It is no form (415, 400), too long (413), has no recording (400), or does not come (408).
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        raise ProblemError(415, "The body must be a form: Content-Type: multipart/form-data")
    parser = _InMemory(
        request.headers, _bounded(request, limit, file), max_files=1, max_fields=100, max_part_size=_FORM_BYTES
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ProblemError(400, f"The form cannot be read: {error.message}", code="invalid_form") from error
    try:
        return await _told(form, limit, file)
    finally:
        await form.close()


async def _told(form: FormData, limit: int, file: str) -> tuple[dict[str, list[str]], bytes]:
    fields: dict[str, list[str]] = {}
    recording = None
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != file:
                raise errors.unknown_fields([name])
            recording = await value.read()
        elif name == file:
            message = f"{file} must be sent as a file, with a filename"
            raise ProblemError(400, message, code="invalid_value", param=file)
        else:
            fields.setdefault(name.removesuffix("[]"), []).append(value)
    if recording is None:
        message = f"{file}: no recording was sent"
        raise ProblemError(400, message, code="missing_required_parameter", param=file)
    if len(recording) > limit:
        raise _too_large(limit, file)
    return fields, recording


async def _bounded(request: Request, limit: int, file: str) -> AsyncGenerator[bytes]:
    announced = request.headers.get("content-length", "0")
    most = limit + _FORM_BYTES
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(limit, file)
    total = 0
    async for piece in bodies.pieces(request):
        total += len(piece)
        if total > most:
            raise _too_large(limit, file)
        yield piece


def _too_large(limit: int, file: str) -> ProblemError:
    return ProblemError(
        413, f"{file}: longer than {limit} bytes, which is the limit", code="file_too_large", param=file
    )
