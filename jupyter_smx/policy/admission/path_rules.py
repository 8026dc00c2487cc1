"""Check the paths of inputs, outputs and code in ``/opt/ml``: all valid, and no two the same."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import input_folder

if TYPE_CHECKING:
    from jupyter_smx.model.spec.channel import Channel, Output
    from jupyter_smx.model.spec.job_spec import JobSpec

_ML = "/opt/ml"
_PROCESSING = "/opt/ml/processing"
_CODE = "/opt/ml/processing/input/code"
_STARTER = "/opt/ml/processing/input/entrypoint"
"""Folders of a processing job's code, and of the program by which a FrameworkProcessor starts a folder of code."""


def check_paths(spec: JobSpec) -> None:
    """Refuse folders that a job cannot have.

    :raises ValidationError: an input of a training job names a folder, two inputs have one, a FastFile channel lies in
        another input or holds one, or an output is no folder that can be moved away.
    """
    folders = {channel.name: _folder_of(spec, channel) for channel in spec.channels}
    for channel in spec.channels:
        _check_path(spec, channel)
    names: dict[str, str] = {}
    for name, folder in folders.items():
        other = names.setdefault(folder, name)
        if other != name:
            raise _channel_error(name, folder, f"Channel {other!r} has this path.", "Give each channel its own path.")
    own = _folders_of_code(spec)
    taken = next((folder for folder in own if folder in names), "")
    if taken:
        raise ValidationError(
            f"--input: channel {names[taken]!r} uses {taken}, the folder of the job's code.",
            field="channels",
            value=names[taken],
            rule=f"As with SageMaker's SDK, a processing job's script, --source-dir and start script are in {taken}.",
            cure="Give the channel another name or path.",
        )
    _check_views(spec, [*folders.values(), *own])
    for output in spec.outputs:
        _check_output_folder(spec, output, list(folders.values()))


def _folders_of_code(spec: JobSpec) -> list[str]:
    if spec.kind != "process" or not (spec.entry_point or spec.source_dir is not None):
        return []
    return [_CODE] if spec.source_dir is None or spec.distribution is not None else [_CODE, _STARTER]


def _channel_error(name: str, value: str, rule: str, cure: str) -> ValidationError:
    return ValidationError(
        f"--input {name}: it cannot be at {value!r}.", field="channels", value=value, rule=rule, cure=cure
    )


def _folder_of(spec: JobSpec, channel: Channel) -> str:
    return posixpath.normpath(input_folder(spec.kind, channel.name, channel.path))


def _check_path(spec: JobSpec, channel: Channel) -> None:
    if not channel.path:
        return
    if spec.kind == "train":
        raise _channel_error(
            channel.name,
            channel.path,
            f"A channel of a training job is at {input_folder('train', channel.name)}.",
            "Remove path=.",
        )
    folder = _folder_of(spec, channel)
    if not channel.path.startswith("/") or folder == _PROCESSING or not _is_in(folder, _PROCESSING):
        rule = f"As on SageMaker the path is absolute and below {_PROCESSING}."
        raise _channel_error(channel.name, channel.path, rule, f"For example path={_PROCESSING}/input.")


def _check_views(spec: JobSpec, folders: list[str]) -> None:
    """Refuse paths inside another channel that is read-only, because their folders cannot be created."""
    for channel in spec.channels:
        own = _folder_of(spec, channel)
        near = [other for other in folders if other != own and (_is_in(other, own) or _is_in(own, other))]
        if channel.mode == "FastFile" and near:
            rule = f"A FastFile channel is read-only, and its folder overlaps with {near[0]}."
            raise _channel_error(channel.name, own, rule, "Use mode=File, or another path.")


def _check_output_folder(spec: JobSpec, output: Output, inputs: list[str]) -> None:
    folder = posixpath.normpath(posixpath.join(_ML, output.path))
    usual = posixpath.normpath(input_folder(spec.kind, ""))
    if not _is_in(folder, _ML) or folder == _ML:
        cure = f"To copy the default folder to that path, use --output {output.name}=:{output.path}."
    elif any(_is_in(folder, one) or _is_in(one, folder) for one in (usual, *inputs)):
        cure = f"To use the default folder, write --output {output.name}=."
    else:
        return
    raise ValidationError(
        f"--output {output.name}: {output.path!r} cannot be a folder of outputs.",
        field="outputs",
        value=output.path,
        rule=f"Files in PATH are moved out when the job ends. PATH is a folder below {_ML} without inputs.",
        cure=cure,
    )


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
