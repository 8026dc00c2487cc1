"""List the sources of a job's channels on this machine: folders, manifests, files and matches of patterns."""

from __future__ import annotations

import glob
from pathlib import Path
from posixpath import basename, curdir, dirname, normpath, pardir, relpath
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy.admission.host_visibility import MAX_ENTRIES, LocalSource, is_local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.model.spec.job_spec import JobSpec


def list_inputs(spec: JobSpec) -> tuple[LocalSource, ...]:
    """List every channel whose source is a path or a pattern. Blocks.

    :raises ValidationError: a source names nothing, too much, or a file that cannot be in its channel.
    """
    return tuple(_list_channel(channel) for channel in spec.channels if is_local_path(channel))


def _list_channel(channel: Channel) -> LocalSource:
    try:
        return _listing(channel)
    except OSError as problem:  # a name that is too long, a folder that is closed, a network disk that is away
        cure = "Make it readable for this user, or move it."
        raise _source_error(channel, f"cannot be read ({problem.strerror})", cure) from problem


def _listing(channel: Channel) -> LocalSource:
    source = channel.source
    path = Path(source)
    if path.is_dir() or (channel.data_type == "ManifestFile" and path.is_file()):
        return LocalSource(channel=channel.name, source=source)
    entries = ((basename(source), source),) if path.is_file() else tuple(sorted(_expand_pattern(channel)))
    return LocalSource(channel=channel.name, source=source, entries=entries)


def _expand_pattern(channel: Channel) -> Iterator[tuple[str, str]]:
    """Find what a pattern stands for, named from its fixed part on as an agent does that sees it itself."""
    folder = dirname(normpath(channel.source))
    while glob.has_magic(folder):
        folder = dirname(folder)
    found = glob.iglob(channel.source, recursive=True)  # noqa: PTH207 - what an agent finds, not what Path.glob does
    names = {relpath(path, folder): path for path in found}
    names.pop(curdir, None)  # ** finds the folder itself
    if not names:
        raise _source_error(channel, "is not a file, folder or pattern of this machine", "")
    for name, path in names.items():
        if name.partition("/")[0] == pardir:
            raise _source_error(channel, f"matches {path!r}, which is outside {folder!r}", "")
    outermost = {name: path for name, path in names.items() if not _is_within(name, names)}
    if len(outermost) > MAX_ENTRIES:
        raise _source_error(
            channel, f"matches {len(outermost)} files and folders", f"Use {folder} itself, or match fewer files."
        )
    yield from outermost.items()


def _is_within(name: str, names: dict[str, str]) -> bool:
    outer = dirname(name)
    while outer and outer not in names:
        outer = dirname(outer)
    return bool(outer)


def _source_error(channel: Channel, what: str, cure: str) -> ValidationError:
    return ValidationError(
        f"channel {channel.name}: {channel.source!r} {what}.", field="channels", value=channel.source, cure=cure
    )
