"""Name the variables that have the folders of ``/opt/ml``, for hosts that have no ``/opt/ml`` of their own. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jupyter_smx.model.spec.channel import input_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.spec.job_spec import JobSpec

ML = PurePosixPath("/opt/ml")
_BASE = ("SAGEMAKER_BASE_DIR", ML)
_NAMES = frozenset({"checkpoints", "code", "config", "input", "model", "output", "processing", "sagemaker"})
"""Folders of a job in ``/opt/ml``; other names there are files of the machine."""
_TRAINING = {
    "model": "SM_MODEL_DIR",
    "input": "SM_INPUT_DIR",
    "input/config": "SM_INPUT_CONFIG_DIR",
    "output": "SM_OUTPUT_DIR",
    "output/data": "SM_OUTPUT_DATA_DIR",
}
_TOOLKIT = {"code": "SM_MODULE_DIR", "output/intermediate": "SM_OUTPUT_INTERMEDIATE_DIR"}
_PATH = re.compile(r"(?<![\w/.$-])/opt/ml(?![\w-])(?:/[^\s'\"`:,;()\[\]]*)?")
_UNUSABLE = re.compile(
    r"no such file|not found|does ?n[o']t exist|non-?existent|permission denied|read-only file system|not a directory|"
    r"returned non-zero exit status|"
    r"\b(?:cannot|can't|unable to|failed to|couldn't|could not)\b",
    re.IGNORECASE,
)


def has_opt_ml(host: Host) -> bool:
    """Return False if jobs on a host find the folders of ``/opt/ml`` by variables only."""
    return host.isolation != "variables"


def missing_folder_notes(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return one note for each reason why hosts have no ``/opt/ml``; empty if all have one."""
    reasons = dict.fromkeys(host.isolation_reason for host in hosts if not has_opt_ml(host))
    return tuple(
        f"Its hosts have no /opt/ml of their own{_bracket(reason)}: the folders are elsewhere, and SAGEMAKER_BASE_DIR, "
        "SM_MODEL_DIR and other variables have their paths."
        for reason in reasons
    )


def starts_in_root(spec: JobSpec) -> bool:
    """Return True if SageMaker starts the code of a job in ``/``.

    It does so with a processing script, unless that is one of a source folder, as with a ``FrameworkProcessor``.
    The working folder of the image counts instead where the job says so.
    """
    if spec.image_program or spec.image_workdir == "image":
        return False
    return spec.kind == "process" and spec.source_dir is None and spec.distribution is None


def working_folder_notes(spec: JobSpec, hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return one note for each reason why a processing script does not start in ``/``; empty if it does, or must not.

    A pool needs them once, for the first such job.
    """
    if not starts_in_root(spec):
        return ()
    reasons = dict.fromkeys(_root_reason(host) for host in hosts if host.isolation and not _has_writable_root(host))
    return tuple(
        f"Its script starts in the folder code of /opt/ml, and not in / as on SageMaker, because {reason}."
        for reason in reasons
    )


def _has_writable_root(host: Host) -> bool:
    return host.isolation == "namespace" and not host.isolation_reason


def _root_reason(host: Host) -> str:
    if host.isolation == "container":
        return "/ is read-only in its containers"
    return f"its hosts have no / of their own{_bracket(host.isolation_reason)}"


def missing_folder_cure(spec: JobSpec, message: str, host: Host) -> str:
    """Return the cure for a message about a path in ``/opt/ml`` that the host does not have; "" for other messages."""
    if has_opt_ml(host) or not _UNUSABLE.search(message):
        return ""
    paths = (PurePosixPath(found[0].rstrip(".")) for found in _PATH.finditer(message))
    path = next((each for each in paths if each == ML or each.parts[3] in _NAMES), None)
    if path is None:
        return ""
    variable, folder = _variable_of(spec, path)
    return (
        f"The host has no /opt/ml of its own{_bracket(host.isolation_reason)}. "
        f"Use the folder in the variable {variable} instead of {folder}."
    )


def with_variables(spec: JobSpec, text: str) -> str:
    """Replace paths in ``/opt/ml`` by variables, as in ``$SM_CHANNEL_TRAIN/a.csv``, also those of channels to add."""

    def replace(found: re.Match[str]) -> str:
        stop = "." if found[0].endswith(".") else ""
        path = PurePosixPath(found[0].removesuffix("."))
        variable, folder = _variable_of(spec, path, is_new_channel=True)
        rest = path.relative_to(folder)
        return f"${variable}{'' if rest == PurePosixPath() else f'/{rest}'}{stop}"

    return _PATH.sub(replace, text)


def _bracket(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _variable_of(spec: JobSpec, path: PurePosixPath, *, is_new_channel: bool = False) -> tuple[str, PurePosixPath]:
    """Return the variable for the folder nearest to a path, and that folder."""
    known = dict(_folders(spec))
    inputs = PurePosixPath(input_folder(spec.kind, "x")).parent
    if is_new_channel and path != inputs and path.is_relative_to(inputs):
        name = path.relative_to(inputs).parts[0]
        known.setdefault(inputs / name, _channel_variable(spec, name))
    for folder in (path, *path.parents):
        if folder in known:
            return known[folder], folder
    return _BASE


def _folders(spec: JobSpec) -> Iterator[tuple[PurePosixPath, str]]:
    for channel in spec.channels:
        folder = input_folder(spec.kind, channel.name, channel.path)
        yield ML / folder, _channel_variable(spec, channel.name)
    if spec.kind == "process":
        yield from ((ML / output.path, f"SMX_OUTPUT_{_plain(output.name)}") for output in spec.outputs if output.path)
        return
    names = _TRAINING if spec.contract == "v3" else {**_TRAINING, **_TOOLKIT}
    yield from ((ML / name, variable) for name, variable in names.items())


def _channel_variable(spec: JobSpec, name: str) -> str:
    return f"SMX_INPUT_{_plain(name)}" if spec.kind == "process" else f"SM_CHANNEL_{name.upper()}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).upper()
