"""Find files of the controller's machine that hosts need but do not see, and those that cannot be provided."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_smx.agent.frames import ChannelSpec, PayloadSpec, RunSpec
    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.model.spec.job_spec import JobSpec

MAX_ENTRIES = 10_000
"""Files and folders that a pattern may stand for, so that their names fit into one frame to an agent."""

_LOCAL_FILE_URL = re.compile(r"(?:^|::)(?:(?:file|local):|/|[^:]*$)", re.IGNORECASE)
"""A URL, or the last part of a chain of them, that is a file of the machine it is read on."""
_MPI = "sagemaker_mpi_enabled"
_FLAGS_BEFORE_MPI = ("sagemaker_torch_distributed_enabled", "sagemaker_parameter_server_enabled")
"""Flags of SageMaker, of which the first one counts."""
_CONNECTING_RUNNERS = ("mpi", "pyspark")
"""Runners whose hosts connect to each other: by files in their folders, or by address with the key of the job."""


class LocalSource(Struct, frozen=True, kw_only=True):
    """A channel whose source lies here: a folder or a manifest as a whole, or what a path or a pattern stands for.

    ``entries`` are then the name in the channel and the path of each; None where ``source`` is brought itself.
    """

    channel: str
    source: str
    entries: tuple[tuple[str, str], ...] | None = None

    def paths(self) -> tuple[str, ...]:
        """Return the paths of the files that must be provided."""
        return (self.source,) if self.entries is None else tuple(path for _name, path in self.entries)


def is_local_path(channel: Channel) -> bool:
    """Return True if a channel is a path of this machine, or a pattern of such paths."""
    return channel.source.startswith("/")


def has_local_files(spec: JobSpec) -> bool:
    """Return True if a job needs any file of this machine."""
    return bool(spec.payloads()) or any(map(is_local_path, spec.channels))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return True if an absolute path is one of some folders, or lies below one."""
    place = normpath(path) + "/"
    return any(place.startswith(normpath(folder).rstrip("/") + "/") for folder in folders)


def check(spec: JobSpec, *, same_paths: bool, host_addresses: bool = False) -> None:
    """Refuse what needs files that hosts do not see: URLs of this machine's files, and each other's folders.

    Paths are brought to them. With ``host_addresses`` hosts reach each other by address instead.

    :raises ValidationError: names the channel, or the distribution.
    """
    if same_paths:
        return
    if not host_addresses:
        _check_distribution(spec)
    for channel in spec.channels:
        if not is_local_path(channel) and _LOCAL_FILE_URL.search(channel.source):
            raise ValidationError(
                f"--input {channel.name}: hosts of the engine {spec.engine} cannot open {channel.source}.",
                field="channels",
                value=channel.source,
                rule="Hosts see only those files of this machine that --input names by path.",
                cure="Use the path of a file, a folder or a pattern, or the URL of an object store.",
            )


def _check_distribution(spec: JobSpec) -> None:
    runner = spec.distribution.runner if spec.distribution else _runner_in_hyperparameters(spec)
    if runner in _CONNECTING_RUNNERS and spec.instance_count() > 1:
        said = f"--distribution {runner}" if spec.distribution else f"--hp {_MPI}"
        raise ValidationError(
            f"{said}: hosts of the engine {spec.engine} cannot start it on several hosts.",
            field="distribution",
            value=runner,
            rule="This launcher needs hosts that see each other's folders, and these hosts do not.",
            cure="Use --instance-count 1, or an --engine whose hosts share a machine.",
        )


def _runner_in_hyperparameters(spec: JobSpec) -> str:
    """Return the runner that SageMaker's own hyperparameters select for a training job, "" for none."""
    if spec.kind != "train" or spec.contract != "v2":
        return ""
    first = next((name for name in (*_FLAGS_BEFORE_MPI, _MPI) if spec.has_flag(name)), "")
    return "mpi" if first == _MPI else ""


def paths_to_provide(spec: JobSpec, here: Iterable[LocalSource]) -> tuple[str, ...]:
    """Name what a job's hosts have to be brought, each once."""
    return tuple(dict.fromkeys([*spec.payloads(), *(path for one in here for path in one.paths())]))


def translate_paths(spec: RunSpec, sources: Iterable[LocalSource], places: Mapping[str, str]) -> RunSpec:
    """Rewrite the paths of files that were brought to a host to where the host finds them."""
    by_channel = {source.channel: source for source in sources}
    channels = [_translate_channel(one, by_channel.get(one["name"]), places) for one in spec["channels"]]
    moved = spec.copy()
    moved["channels"] = channels
    moved["send"], moved["shared"] = (
        _translate_payload(spec["send"], places),
        _translate_payload(spec["shared"], places),
    )
    source = spec["source_dir"]
    moved["source_dir"] = source and {**source, "path": places.get(source["path"], source["path"])}
    return moved


def _translate_payload(payload: PayloadSpec | None, places: Mapping[str, str]) -> PayloadSpec | None:
    return payload and {**payload, "path": places.get(payload["path"], payload["path"])}


def _translate_channel(channel: ChannelSpec, source: LocalSource | None, places: Mapping[str, str]) -> ChannelSpec:
    if source is None:
        return channel.copy()
    if source.entries is None:
        return {**channel, "source": places[source.source]}
    return {**channel, "entries": [[name, places[path]] for name, path in source.entries]}
