"""What is asked of the model hub, through huggingface_hub; every failure as one of ours.

Addresses and tokens: ``HF_ENDPOINT`` names a mirror, ``HF_TOKEN`` (or a stored login) is sent by the library in a
header, to the endpoint only. Nothing here puts a token, or the query of a signed address, into a message.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from firstword.engine.models.locks import Expected, Lock, is_safe
from firstword.engine.models.progress import Progress
from firstword.errors import Exit, FirstwordError

# Not needed to serve, and large in some repositories.
_SKIPPED = (".md", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".mp4", ".pdf")


def endpoint() -> str:
    """Return the hub's address: ``HF_ENDPOINT``, else the public hub. It may hold a password; see `shown`.

    Raises:
        FirstwordError: ``HF_ENDPOINT`` is no address.
    """
    address = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    _parts(address)
    return address


def shown() -> str:
    """Return the hub's address as messages may show it: without a user's name and password.

    Raises:
        FirstwordError: ``HF_ENDPOINT`` is no address.
    """
    parts = _parts(endpoint())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:  # the value stays unsaid: it may hold a password
        raise FirstwordError(
            "HF_ENDPOINT is not the http or https address of a hub",
            mend="set it to one such as https://huggingface.co, or unset it",
            code=Exit.USAGE,
        )
    return parts


def is_offline() -> bool:
    """Return whether the user has forbidden the network."""
    return forbidden_by() is not None


def forbidden_by() -> str | None:
    """Return the variable with which the user has forbidden the network, of those that huggingface_hub reads."""
    name = "HF_HUB_OFFLINE" if os.environ.get("HF_HUB_OFFLINE") else "TRANSFORMERS_OFFLINE"
    return name if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") else None


def listing(lock: Lock) -> dict[str, Expected]:
    """Return the files that the hub lists at the lock's revision, compared with what the lock knows.

    Raises:
        FirstwordError: The hub cannot be asked, answers for another revision, or disagrees with the lock.
    """
    from huggingface_hub import HfApi

    with _failures(f"the listing of {lock.repository}"):
        info = HfApi(endpoint=endpoint()).model_info(lock.repository, revision=lock.revision, files_metadata=True)
    _require_revision(lock, info.sha, "its listing")
    files: dict[str, Expected] = {}
    for item in info.siblings or []:
        path = item.rfilename
        if path.lower().endswith(_SKIPPED) or (path.startswith(".") and is_safe(path.lstrip("."))):
            continue
        if not is_safe(path) or item.size is None:
            raise FirstwordError(
                f"{shown()} lists a file {path!r} of {lock.repository} that cannot be stored",
                mend="unset HF_ENDPOINT, or ask its operator",
                code=Exit.CHECKSUM,
            )
        sha256 = item.lfs.sha256 if item.lfs else None
        files[path] = Expected(path, item.size, sha256, None if sha256 else item.blob_id)
    for path, known in lock.files.items():
        listed = files.get(path)
        if listed is None:
            fault = "does not list it"
        elif listed.size != known.size:
            fault = f"says {listed.size} bytes instead of {known.size}"
        elif known.sha256 and listed.sha256 and listed.sha256 != known.sha256:
            fault = f"says sha256 {listed.sha256} instead of {known.sha256}"
        else:
            continue
        raise FirstwordError(
            f"{path} of {lock.repository} at {lock.revision[:12]}: {shown()} {fault}",
            mend="unset HF_ENDPOINT; if the public hub says so too, the lock in configs/models/ is wrong",
            code=Exit.CHECKSUM,
        )
    return files


def fetch(lock: Lock, file: Expected, part: Path, progress: Progress) -> None:
    """Transfer one file into ``part``, going on where an earlier transfer stopped.

    huggingface_hub goes on by itself after a broken connection, but keeps nothing between runs (its partial file has
    a new name each time), which is why its downloader is used one level lower here.

    Args:
        lock: The model.
        file: Which file.
        part: Where; what is there already is taken as the file's beginning.
        progress: Counts the bytes; can stop the transfer.

    Raises:
        FirstwordError: The hub cannot be asked, serves another revision, or the disk is full.
        Stopped: ``progress`` was told to.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    url = hf_hub_url(lock.repository, file.path, revision=lock.revision, endpoint=endpoint())
    with _failures(f"{lock.repository}/{file.path}"):
        metadata = get_hf_file_metadata(url, endpoint=endpoint(), retry_on_errors=True)
    _require_revision(lock, metadata.commit_hash, file.path)
    if metadata.size != file.size:
        raise FirstwordError(
            f"{file.path} of {lock.repository} at {lock.revision[:12]}: {shown()} says {metadata.size} bytes "
            f"instead of {file.size}",
            mend="unset HF_ENDPOINT, or try again",
            code=Exit.CHECKSUM,
        )
    with _failures(f"{lock.repository}/{file.path}"), part.open("ab", buffering=0) as stream:
        if stream.tell() > file.size:
            stream.truncate(0)
        # The address is resolved anew each time, so a signed one is never too old; httpx drops the token on the way
        # to another host. Compressed answers could not be continued.
        http_get(
            url,
            stream,
            resume_size=stream.tell(),
            headers=build_hf_headers() | {"Accept-Encoding": "identity"},
            expected_size=file.size,
            displayed_filename=file.path,
            tqdm_class=progress.bar_class,
        )


def in_cache(lock: Lock, file: Expected) -> Path | None:
    """Return the file in the user's Hugging Face cache at the lock's revision, if it is there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(lock.repository, file.path, revision=lock.revision)
    return Path(found).resolve() if isinstance(found, str) else None


def _require_revision(lock: Lock, revision: str | None, what: str) -> None:
    if revision is None:
        raise FirstwordError(
            f"{shown()} does not say which revision of {lock.repository} it answers for ({what}): it is no model hub, "
            "or the network's login page answers",
            mend="check the network and HF_ENDPOINT, then run the same command: what is here already is kept",
            code=Exit.DOWNLOAD,
        )
    if revision != lock.revision:
        raise FirstwordError(
            f"{shown()} answers for revision {revision} of {lock.repository} ({what}), not for {lock.revision}",
            mend="unset HF_ENDPOINT, or ask its operator; a mirror must serve the revision that is asked for",
            code=Exit.CHECKSUM,
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep addresses out of the log while the context lasts: signed ones let anybody fetch the file."""
    # huggingface_hub warns of each retry, with the address.
    quieter = {logging.getLogger("httpx"): logging.WARNING, logging.getLogger("huggingface_hub"): logging.ERROR}
    before = {logger: logger.level for logger in quieter}
    for logger, level in quieter.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Turn every failure of the hub into one of ours, without the addresses and bodies that may hold secrets."""
    import httpx
    from huggingface_hub import errors

    host = _parts(endpoint()).hostname
    assert host
    again = "check the network and HF_ENDPOINT, then run the same command: what is here already is kept"
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise FirstwordError(
            f"{what} is not here and HF_HUB_OFFLINE forbids asking {host}",
            mend="unset HF_HUB_OFFLINE",
            code=Exit.DOWNLOAD,
        ) from error
    except errors.HfHubHTTPError as error:
        raise _answered(what, host, error.response.status_code, again) from None
    except httpx.HTTPStatusError as error:
        raise _answered(what, host, error.response.status_code, again) from None
    except (httpx.HTTPError, errors.FileMetadataError) as error:
        raise FirstwordError(
            f"{what}: no usable answer from {host} ({type(error).__name__})", mend=again, code=Exit.DOWNLOAD
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # from the library, reading the answer
        raise FirstwordError(
            f"{what}: {host} answered something else than a model hub does ({type(error).__name__}); "
            "it may be the network's login page",
            mend=again,
            code=Exit.DOWNLOAD,
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FirstwordError(
                f"{what}: no space left", mend="free space, then run the same command", code=Exit.DISK_FULL
            ) from error
        if error.errno is not None:
            raise
        # huggingface_hub's own: the transfer ended with another size than promised.
        raise FirstwordError(f"{what}: {host} sent a cut file", mend=again, code=Exit.DOWNLOAD) from None


def _answered(what: str, host: str, status: int, again: str) -> FirstwordError:
    mend = {
        401: "set HF_TOKEN to a token that may read it",
        403: "accept its terms on the hub with the account of HF_TOKEN",
        404: "check HF_ENDPOINT: the mirror does not hold this revision",
    }.get(status, again)
    return FirstwordError(f"{what}: {host} answered {status}", mend=mend, code=Exit.DOWNLOAD)
