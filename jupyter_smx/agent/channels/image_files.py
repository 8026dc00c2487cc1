"""Show a job the files that the image of its host has in ``/opt/ml``, where the job itself has none.

As on SageMaker, folders that are mounted for a job hide those of the image: inputs, outputs and the model. Small files
are copied, so that a job may change them; large ones are links to files of the image, which no job can change. The host
deletes both with the job, so the next job finds the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Iterator, Set, Tuple

from jupyter_smx.agent.paths import checkpoint_folder, input_folder, output_folders

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

_MAX_COPY = 1 << 20
"""Bytes of a file that is copied; a larger one is linked."""
_MAX_TOTAL = 64 << 20
"""Bytes of all copies of a job: a warm start should not take long."""
_MAX_FILES = 5_000
_TRAINING = ("input", "model", "output", "config", "sagemaker/warmpoolcache")
_PROCESSING = ("config", "processing/input/code", "processing/output", "output", "sagemaker/warmpoolcache")
PROGRAM, SUBMIT_DIRECTORY = "SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY"
"""Variables of an image that name its script; a job with another script has its own."""


def hidden_folders(spec: CompleteSpec, host_info: HostInfo) -> Set[str]:
    """Return the folders below ``/opt/ml`` that SageMaker mounts for a job.

    :raises ValueError: a folder of the job is not below ``/opt/ml``.
    """
    found = set(_TRAINING if spec["kind"] == "train" else _PROCESSING)
    paths = [input_folder(host_info, spec["kind"], channel) for channel in spec["channels"]]
    paths += [path for _name, path in output_folders(spec, host_info)]
    if spec["checkpoint"]:
        paths.append(host_info.real_path(checkpoint_folder(spec)))
    return found | {os.path.relpath(path, host_info.base) for path in paths}


def list_files(folder: str, hidden: Set[str]) -> Iterator[Tuple[str, "os.DirEntry[str]"]]:
    """Yield the folders and files of an image by their names below ``/opt/ml``, outer ones first, in their order."""
    waiting = [""]
    while waiting:
        name = waiting.pop()
        with os.scandir(os.path.join(folder, name)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            inner = os.path.join(name, entry.name)
            if inner in hidden:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(inner)
            yield inner, entry


def present(spec: CompleteSpec, host_info: HostInfo) -> None:
    """Put the image's files where the job has none of its own.

    :raises OSError: the disk is full.
    """
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    size = count = 0
    closed: Set[str] = set()
    for name, entry in list_files(host_info.image_files, hidden_folders(spec, host_info)):
        path = host_info.path(name)
        if os.path.dirname(name) in closed:
            closed.add(name)  # the job has a file in the place of that folder
        elif entry.is_dir(follow_symlinks=False):
            if not os.path.isdir(path):
                _make_folder(path, name, closed)
        elif not os.path.lexists(path):
            length = 0 if entry.is_symlink() else entry.stat(follow_symlinks=False).st_size
            is_copied = length <= _MAX_COPY and size + length <= _MAX_TOTAL and count < _MAX_FILES
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif is_copied:
                size, count = size + length, count + 1
                shutil.copyfile(entry.path, path)
                os.chmod(path, entry.stat().st_mode & 0o755 | 0o600)
            else:
                os.symlink(entry.path, path)


def _make_folder(path: str, name: str, closed: Set[str]) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        closed.add(name)


def names_in(host_info: HostInfo, folder: str) -> Set[str]:
    """Return the names that files of the image have below a folder of ``/opt/ml``, as ``code``."""
    top = os.path.join(host_info.image_files, folder)
    if not host_info.image_files or not os.path.isdir(top):
        return set()
    return {name for name, _entry in list_files(top, set())}


def replace_program(spec: CompleteSpec, code: str, name: str) -> None:
    """Let the variables that name the image's script name the job's, unless the job runs a program of the image."""
    for variable, value in ((PROGRAM, name), (SUBMIT_DIRECTORY, code)):
        if variable in os.environ and variable not in spec["environment"] and not spec["command"]:
            os.environ[variable] = value
