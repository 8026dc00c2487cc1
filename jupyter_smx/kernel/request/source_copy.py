"""Copy ``--source-dir`` to a temporary folder if it is an archive or a URL, so that it is packed like any folder.

The process that reads URLs is the one by which hosts read their inputs, so it needs the same packages and finds the
same credentials.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import weakref
import zlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyter_smx.agent.stores.filesystems import required_packages
from jupyter_smx.agent.stores.url_schemes import URL
from jupyter_smx.agent.stores.worker_environment import worker_environment
from jupyter_smx.kernel.request.script import ARCHIVES
from jupyter_smx.kernel.request.source_dir import MAX_BYTES, MAX_FILES
from jupyter_smx.model.errors import UnavailableError, ValidationError
from jupyter_smx.model.redaction import redact_text
from jupyter_smx.model.text import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIST_SECONDS = 30.0
"""Limit for an answer about names and sizes."""
FETCH_SECONDS = 900.0
"""Limit for the download."""
NOTE_SECONDS = 1.0
"""Seconds without an answer after which the user reads what the cell waits for."""
_WORKER = (sys.executable, "-m", "jupyter_smx.agent", "courier")
_ARCHIVE, _CODE = "archive", "code"


class SourceCopy:
    """A temporary folder with the files of an archive or a URL.

    It is deleted when nothing refers to this object any more, and at the end of the process.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        top = Path(tempfile.mkdtemp(prefix="smx-source-"))
        self.folder = str(top / _CODE)
        self.archive = str(top / _ARCHIVE)
        (top / _CODE).mkdir()
        weakref.finalize(self, shutil.rmtree, top, ignore_errors=True)


def copy_source(word: str) -> SourceCopy:
    """Copy the files of an archive (an absolute path) or a URL here. Blocks.

    :raises ValidationError: it is no archive, it is empty or too large, or it cannot be read.
    :raises UnavailableError: this machine lacks what reads the URL.
    """
    found = SourceCopy(redact_text(word))
    if not URL.match(word):
        _unpack(word, found)
    elif _is_archive(word):
        _check_size([int(one["size"]) for one in _ask(word, {"do": "look", "urls": [word]})], found.origin)
        _fetch(word, [(word, found.archive)])
        _unpack(found.archive, found)
    else:
        _fetch_folder(word, found)
    return found


def copy_file(url: str) -> SourceCopy:
    """Copy the file at a URL here, under its own name. Blocks.

    :raises ValidationError: it is too large, or it cannot be read.
    :raises UnavailableError: this machine lacks what reads the URL.
    """
    found = SourceCopy(redact_text(posixpath.dirname(url)))
    _check_size([int(one["size"]) for one in _ask(url, {"do": "look", "urls": [url]})], redact_text(url))
    _fetch(url, [(url, _path_inside(posixpath.basename(url), found))])
    return found


def _is_archive(url: str) -> bool:
    """Return True if a URL is that of an archive, which may have a signature behind its path."""
    return url.endswith(ARCHIVES) or urlsplit(url).path.endswith(ARCHIVES)


def _unpack(archive: str, into: SourceCopy) -> None:
    try:
        with tarfile.open(archive, "r:gz") as opened:
            entries = list(opened)
            members = [member for member in entries if not member.isdir()]
            _check_size([member.size for member in members], into.origin)
            _check_links(entries, into.origin)
            for member in members:
                _unpack_member(opened, member, into)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _source_error(
            into.origin, f"cannot be unpacked: {error}", "It is a .tar.gz archive with the code at its top.", ""
        ) from error


def _check_links(entries: Sequence[tarfile.TarInfo], origin: str) -> None:
    """Refuse links to folders of the archive, which would be left out without a word.

    :raises ValidationError: there is one.
    """
    names = [posixpath.normpath(entry.name) for entry in entries]
    folders = {str(above) for name in names for above in PurePosixPath(name).parents}
    folders.update(name for name, entry in zip(names, entries, strict=True) if entry.isdir())
    for name, entry in zip(names, entries, strict=True):
        if entry.issym() and posixpath.normpath(posixpath.join(posixpath.dirname(name), entry.linkname)) in folders:
            raise _source_error(
                origin,
                f"has a link to a folder: {name} leads to {entry.linkname}",
                "Links of an archive lead to files.",
                "Make it with `tar --dereference`, which stores the files of the folder there.",
            )


def _unpack_member(opened: tarfile.TarFile, member: tarfile.TarInfo, into: SourceCopy) -> None:
    """Write a file, or what a link of the archive leads to; links to elsewhere stay behind."""
    try:
        content = opened.extractfile(member)
    except (KeyError, RecursionError):  # a link to nothing, or in a circle
        return
    if content is None:
        return
    path = _path_inside(member.name, into)
    with content, open(path, "wb") as file:  # noqa: PTH123 - as text
        shutil.copyfileobj(content, file)
    os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)  # noqa: PTH101 - a program stays one


def _path_inside(name: str, into: SourceCopy) -> str:
    """Return the path of a file in the copy, and make its folder.

    :raises ValidationError: it would lie outside.
    """
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts or not parts:
        raise _source_error(into.origin, f"has a file outside: {name!r}", "All files are inside the archive.", "")
    path = Path(into.folder, *parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def _fetch_folder(url: str, into: SourceCopy) -> None:
    top = f"{url.rstrip('/')}/"
    found = [(str(one["url"]), int(one["size"])) for one in _ask(top, {"do": "list"})]
    files = [(place, size) for place, size in found if place.startswith(top) and not place.endswith("/")]
    if not files:
        raise _source_error(
            into.origin,
            "has no files",
            "A URL is a folder of code, or an archive that ends with .tar.gz.",
            "Name the folder or the archive.",
        )
    _check_size([size for _, size in files], into.origin)
    _fetch(url, [(place, _path_inside(place[len(top) :], into)) for place, _ in files])


def _fetch(url: str, pairs: Sequence[tuple[str, str]]) -> None:
    _ask(url, {"do": "fetch", "pairs": [list(pair) for pair in pairs]})


def _ask(url: str, request: dict[str, Any]) -> Any:
    """Give a request to a process that reads URLs, and return its result."""
    environment = worker_environment(os.environ, {}, is_ours=True, is_the_jobs=False)
    line = json.dumps({**request, "source": url}) + "\n"
    limit = FETCH_SECONDS if request["do"] == "fetch" else LIST_SECONDS
    try:
        with _note_of_waiting(url):
            done = subprocess.run(
                _WORKER, input=line, stdout=subprocess.PIPE, env=environment, text=True, check=False, timeout=limit
            )
        answer = dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"--source-dir: {redact_text(url)} cannot be read: there was no answer within {format_duration(limit)}.",
            field="source_dir",
            value=redact_text(url),
            rule="The cell waits for the files, because they are sent with the job.",
            cure="Check the URL and the network of this machine, or fetch the files first and pass their folder.",
            transient=True,
        ) from None
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"--source-dir: {redact_text(url)} cannot be read: the process that reads it failed ({error}).",
            field="source_dir",
            value=redact_text(url),
            cure="Try again.",
            transient=True,
        ) from error
    if "lacks" in answer:
        raise ValidationError(
            f"--source-dir: {redact_text(url)} cannot be read: {sys.executable} lacks {answer['lacks']}.",
            field="source_dir",
            value=redact_text(url),
            rule="A URL is read here and sent with the job.",
            cure=f"Run pip install {required_packages(url)} in that environment.",
        )
    if "error" in answer:
        raise _source_error(
            redact_text(url),
            f"cannot be read: {str(answer['error']).rstrip('.')}",
            "A URL is read here and sent with the job.",
            "Check the URL and the credentials of this machine.",
        )
    return answer["result"]


@contextmanager
def _note_of_waiting(url: str) -> Iterator[None]:
    """Print what the cell waits for if that takes longer than a second."""
    sentence = f"Reading --source-dir {redact_text(url)} …"
    timer = threading.Timer(NOTE_SECONDS, print, [sentence], {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_size(sizes: Sequence[int], origin: str) -> None:
    size = sum(sizes)
    if len(sizes) > MAX_FILES:
        raise _source_error(
            origin, f"has {len(sizes)} files", f"Source code has at most {MAX_FILES}.", "Pass data with --input."
        )
    if size > MAX_BYTES:
        raise _source_error(
            origin,
            f"has {format_size(size)}",
            f"Source code has at most {format_size(MAX_BYTES)}.",
            "Pass data with --input.",
        )


def _source_error(origin: str, sentence: str, rule: str, cure: str) -> ValidationError:
    return ValidationError(
        f"--source-dir: {origin} {sentence}.", field="source_dir", value=origin, rule=rule, cure=cure
    )
