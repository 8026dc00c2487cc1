"""Build the ``spec`` of the wire's ``run`` request from the record of a job. Pure."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from jupyter_smx.policy.admission import image_rules
from jupyter_smx.policy.hosts.names import Shard, has_channel, named_hosts, shard_of
from jupyter_smx.policy.lifecycle import attempts
from jupyter_smx.policy.lifecycle.environment import format_for_pip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.agent.frames import ChannelSpec, OutputSpec, PayloadSpec, RunSpec, ShareSpec, SourceDirSpec
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.channel import Channel, Payload
    from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
    from jupyter_smx.policy.hosts.names import NamedHost


def run_spec(
    job: Job, host: NamedHost, grace: float, keep_alive: int, *, linger: int = 0, gpus: Sequence[int] = ()
) -> RunSpec:
    """Build the run specification for one host, which gets these GPUs; see docs/developers/agent.md.

    ``keep_alive`` is the seconds that count after the job, ``linger`` those in which the host waits for others.
    """
    spec = job.spec.fill_job_name(job.name)
    hosts = named_hosts(spec.instance_groups)
    return {
        "name": job.name,
        "kind": spec.kind,
        "source": spec.source,
        "filename": spec.filename or f"<{spec.base_name}>",
        "hyperparameters": spec.all_hyperparameters(),
        "environment": spec.environment,
        "channels": [_channel(host, channel, hosts) for channel in spec.channels if has_channel(host, channel)],
        "outputs": _outputs(spec),
        "role": spec.role,
        "image": spec.image,
        # The hosts of an image install the rest; elsewhere it is in the job's environment.
        "requirements": format_for_pip(spec.requirements) if spec.image else [],
        "send": None if spec.send is None else _payload_fields(spec.send),
        "shared": None if spec.shared is None else _payload_fields(spec.shared),
        "source_dir": None if spec.source_dir is None else _source_dir(spec.source_dir),
        "entry_point": spec.entry_point,
        # The program of a processing image has them in its command.
        "arguments": [] if spec.image_program and spec.kind == "process" else list(spec.arguments),
        "command": list(image_rules.program_of(spec, job.image)),
        "image_workdir": spec.image_workdir == "image" or spec.image_program,
        "folder": _folder(spec),
        "receive": list(spec.receive),
        "max_run": attempts.remaining_seconds(job),
        "checkpoint": spec.checkpoint,
        "checkpoint_local_path": spec.checkpoint_local_path,
        "disable_output_compression": spec.disable_output_compression,
        "grace": grace,
        "keep_alive": keep_alive + linger,
        "warm_pool": keep_alive > 0,
        "contract": spec.contract,
        "distribution": spec.distribution.runner if spec.distribution else "",
        "processes": (spec.distribution.processes or 0) if spec.distribution else 0,
        "python_version": spec.python_version,
        "submitted_at": spec.submitted_at,
        "imports": list(spec.imports),
        "gpus": list(gpus),
        "key": "",
    }


def _channel(host: NamedHost, channel: Channel, hosts: Sequence[NamedHost]) -> ChannelSpec:
    return {
        "name": channel.name,
        "source": channel.source,
        "mode": channel.mode,
        "distribution": channel.distribution,
        "data_type": channel.data_type,
        "content_type": channel.content_type,
        "path": channel.path,
        "share": _share(shard_of(host, channel, hosts)),
    }


def _outputs(spec: JobSpec) -> list[OutputSpec]:
    return [{"name": o.name, "path": o.path, "destination": o.destination, "mode": o.mode} for o in spec.outputs]


def _share(shard: Shard) -> ShareSpec:
    # The agent's protocol has its own names.
    return {"turn": shard.index, "count": shard.count}


def _folder(spec: JobSpec) -> str:
    """Return the submitter's folder that the code comes from, "" for a cell; ``filename`` is a file's own path."""
    if spec.source_dir is not None:
        return spec.source_dir.folder
    return (posixpath.dirname(spec.filename) or ".") if spec.entry_point else ""  # a URL keeps its two slashes


def _source_dir(source: SourceDir) -> SourceDirSpec:
    return {
        "folder": source.folder,
        "path": source.path,
        "sha256": source.sha256,
        "files": source.files,
        "size": source.size,
    }


def _payload_fields(sent: Payload) -> PayloadSpec:
    return {"path": sent.path, "sha256": sent.sha256, "size": sent.size, "protocol": sent.protocol}
