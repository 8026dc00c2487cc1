"""Check jobs with network isolation: which engines support it, and what isolated hosts cannot do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy import urls
from jupyter_smx.policy.admission.continuous_output_rules import intermediate_destination

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

_PATHS = "Use paths of files and folders of this machine; they are copied to the hosts."
_OUTPUTS_CURE = "Remove it: outputs are collected when the job ends, and uploaded from this machine."
_PACKAGES_CURE = (
    "Install it when you build the image. Or put wheels into --source-dir, and --no-index and --find-links "
    "into the requirements."
)


def check(spec: JobSpec, able: Collection[str], *, for_all: bool = False) -> None:
    """Refuse network isolation if the engine does not support it, or if a host needs the network.

    ``able`` are the engines that can isolate the network of their hosts; ``for_all`` is True if this one isolates it
    for every job.

    :raises ValidationError: the text has the setting that needs the network, and the cure.
    """
    if not spec.network_isolation:
        return
    if spec.engine not in able:
        raise ValidationError(
            f"--network-isolation: the engine {spec.engine} cannot isolate its hosts from the network.",
            field="network_isolation",
            value=spec.engine,
            rule="Isolation needs an engine whose hosts have their own network.",
            cure=f"Use an engine that supports it: --engine {' or '.join(sorted(able))}."
            if able
            else "Remove --network-isolation: no installed engine supports it.",
        )
    who = f"--engine {spec.engine} isolates the network of all its hosts" if for_all else "--network-isolation"
    for what, field, value, cure in _network_uses(spec):
        raise ValidationError(
            f"{who}: {what}.",
            field=field,
            value=value,
            rule="Isolated hosts can reach only each other.",
            cure=cure,
        )


def _network_uses(spec: JobSpec) -> Iterator[tuple[str, str, str, str]]:
    """Name all for which the hosts themselves would go out: what, the field, its value, and the cure."""
    for channel in spec.channels:
        # What a manifest names is somewhere else, wherever it lies itself.
        if channel.data_type == "ManifestFile" or not channel.source.startswith("/"):
            source = (
                f"the objects that {channel.source} lists" if channel.data_type == "ManifestFile" else channel.source
            )
            yield f"its hosts cannot read {source} (--input {channel.name})", "channels", channel.source, _PATHS
    if urls.is_url(spec.checkpoint):
        cure = "Remove --checkpoint, or save checkpoints with the job's outputs."
        yield f"its hosts cannot write checkpoints to {spec.checkpoint}", "checkpoint", spec.checkpoint, cure
    for output in spec.outputs:
        if output.mode == "Continuous" and urls.is_url(output.destination):
            said = f"its hosts cannot upload to {output.destination} while the job runs (--output {output.name})"
            yield said, "outputs", output.destination, _OUTPUTS_CURE
    if urls.is_url(intermediate_destination(spec)):
        yield (
            f"its hosts cannot upload to {intermediate_destination(spec)}",
            "hyperparameters",
            intermediate_destination(spec),
            _OUTPUTS_CURE,
        )
    if spec.image and spec.requirements and not any("--no-index" in line for line in spec.requirements):
        line = spec.requirements[0]
        yield f"pip on its hosts cannot reach a package index to install {line}", "requirements", line, _PACKAGES_CURE
