"""Jobs whose hosts reach each other and nothing else: which engines can, and what such hosts cannot do. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.policy import urls
from jupyter_smx.policy.admission.continuous_output_rules import intermediate_destination

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

_PATHS = "Name files and folders of this machine by their paths; they are brought to the hosts."
_OUTPUTS_CURE = "Leave it out: outputs come home at the end, and go to their URL from here."
_PACKAGES_CURE = (
    "Install it when the image is built, or put wheels into --source-dir and write --no-index and --find-links into "
    "the requirements."
)


def check(spec: JobSpec, able: Collection[str], *, for_all: bool = False) -> None:
    """Refuse a wish for hosts without a way out where they cannot be had, or where one of them would need it.

    ``able`` are the engines that can close the network of their hosts; ``for_all`` says that this one closes it
    whatever a job asks for.

    :raises ValidationError: says what would need it, and the cure.
    """
    if not spec.network_isolation:
        return
    if spec.engine not in able:
        raise ValidationError(
            f"--network-isolation: hosts of the engine {spec.engine} reach whatever this machine reaches.",
            field="network_isolation",
            value=spec.engine,
            rule="Only an engine that gives its hosts a network of their own can close it.",
            cure=f"Name one that can: --engine {' or '.join(sorted(able))}." if able else "No engine here can.",
        )
    who = f"--engine {spec.engine} isolates the network of all its hosts" if for_all else "--network-isolation"
    for what, field, value, cure in _network_uses(spec):
        raise ValidationError(
            f"{who}: {what}.",
            field=field,
            value=value,
            rule="Such hosts reach each other and nothing else, and it is they who would have to go there.",
            cure=cure,
        )


def _network_uses(spec: JobSpec) -> Iterator[tuple[str, str, str, str]]:
    """Name all for which the hosts themselves would go out: what, the field, its value, and the cure."""
    for channel in spec.channels:
        # What a manifest names is somewhere else, wherever it lies itself.
        if channel.data_type == "ManifestFile" or not channel.source.startswith("/"):
            source = f"what {channel.source} names" if channel.data_type == "ManifestFile" else channel.source
            yield f"its hosts cannot read {source} (--input {channel.name})", "channels", channel.source, _PATHS
    if urls.is_url(spec.checkpoint):
        cure = "Leave --checkpoint out, or keep checkpoints among the job's outputs."
        yield f"its hosts cannot keep checkpoints at {spec.checkpoint}", "checkpoint", spec.checkpoint, cure
    for output in spec.outputs:
        if output.mode == "Continuous" and urls.is_url(output.destination):
            said = f"its hosts cannot bring anything to {output.destination} while it runs (--output {output.name})"
            yield said, "outputs", output.destination, _OUTPUTS_CURE
    if urls.is_url(intermediate_destination(spec)):
        yield (
            f"its hosts cannot bring anything to {intermediate_destination(spec)}",
            "hyperparameters",
            intermediate_destination(spec),
            _OUTPUTS_CURE,
        )
    if spec.image and spec.requirements and not any("--no-index" in line for line in spec.requirements):
        line = spec.requirements[0]
        yield f"pip in its hosts finds no package index, to install {line}", "requirements", line, _PACKAGES_CURE
