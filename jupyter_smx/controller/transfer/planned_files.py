"""List for ``--plan`` what hosts of another machine would be sent for a job; reads no file, and asks no host."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.controller.transfer import input_listing
from jupyter_smx.model.results.reports import PlannedFiles
from jupyter_smx.policy.admission.host_visibility import is_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jupyter_smx.model.spec.channel import Payload
    from jupyter_smx.model.spec.job_spec import JobSpec

_COUNT_LIMIT = 2.0
"""Seconds for counting the files of all channels."""


def list_planned_files(
    spec: JobSpec, shared_folders: Sequence[str] = (), clock: Callable[[], float] = time.monotonic
) -> tuple[PlannedFiles, ...]:
    """List variables, the source folder and channels with their sizes. Blocks.

    Files in ``shared_folders`` are not sent, and left out. Counting ends after two seconds by ``clock``; sizes counted
    until then are marked as partial.

    :raises ValidationError: the source of a channel does not exist, or cannot be sent.
    """
    deadline = clock() + _COUNT_LIMIT
    sources = {channel.name: channel.source for channel in spec.channels}
    is_shared = partial(is_below, folders=shared_folders)
    packed = [one for one in (spec.shared, spec.send) if one is not None and not is_shared(one.path)]
    found = [_variables(one) for one in packed]
    folder = spec.source_dir
    if folder is not None and not is_shared(folder.path):
        found.append(PlannedFiles(kind="source folder", name=folder.folder, files=folder.files, size=folder.size))
    for one in input_listing.list_inputs(spec):
        paths = [path for path in one.paths() if not is_shared(path)]
        if paths:
            kind = f"channel {one.channel}"
            found.append(_count(PlannedFiles(kind=kind, name=sources[one.channel]), paths, lambda: clock() > deadline))
    return tuple(found)


def _variables(packed: Payload) -> PlannedFiles:
    return PlannedFiles(kind="variables", name=", ".join(packed.sizes), files=1, size=packed.size)


def _count(planned: PlannedFiles, paths: Iterable[str], is_over: Callable[[], bool]) -> PlannedFiles:
    files = size = 0
    for one in _sizes(paths):
        files, size = files + 1, size + one
        if is_over():
            break
    return replace(planned, files=files, size=size, is_partial=is_over())


def _sizes(paths: Iterable[str]) -> Iterator[int]:
    """Yield the size in bytes of each file in files and folders, as far as they can be read; links are followed."""
    for path in paths:
        if not Path(path).is_dir():
            yield _size(path)
            continue
        for level in descend(path, follow=True, on_error=lambda _: None):
            yield from (_size(entry.path) for entry in level.files)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
