"""Distribution of a script over processes: the launcher, processes for each host, and the group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.spec.instance import InstanceGroup


Runner = Literal["torchrun", "mpi", "parameter_server", "multi_worker_mirrored_strategy", "pyspark"]
RUNNERS: dict[str, Runner] = {name: name for name in get_args(Runner)}
_OF_TENSORFLOW = ("parameter_server", "multi_worker_mirrored_strategy")
"""Strategies of SageMaker's TensorFlow images: one worker on each host, which finds the others in ``TF_CONFIG``."""


class Distribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A launcher; ``processes`` counts those on each host, None is one for each GPU, or one.

    ``groups`` has the one instance group that it concerns; hosts of others run the script plainly. ``pyspark`` has
    neither: the script runs once, and all hosts work for it. With TensorFlow's strategies it runs once on each host.
    """

    runner: Runner
    processes: int | None = None
    groups: tuple[str, ...] = ()

    def option_value(self) -> str:
        """Return the value as written after ``--distribution``."""
        processes = "" if self.processes is None else f",processes={self.processes}"
        return f"{self.runner}{processes}{f',groups={self.groups[0]}' if self.groups else ''}"

    def parameters(self, groups: Sequence[InstanceGroup]) -> dict[str, str]:
        """Return the hyperparameters by which SageMaker's SDK requests it; those of a processing job are its own."""
        if self.runner == "pyspark":
            return {}
        if self.runs_once():
            return {f"sagemaker_{self.runner}_enabled": "true", **self._group_parameters()}
        kinds = {group.name: group.instance_type for group in groups}
        found = {
            "sagemaker_instance_type": json.dumps(kinds[self.groups[0]] if self.groups else groups[0].instance_type)
        }
        if self.runner == "mpi":
            found |= {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_custom_mpi_options": '""'}
        else:
            found["sagemaker_torch_distributed_enabled"] = "true"
        if self.processes is not None:
            found["sagemaker_mpi_num_of_processes_per_host"] = str(self.processes)
        return found | self._group_parameters()

    def _group_parameters(self) -> dict[str, str]:
        return {"sagemaker_distribution_instance_groups": json.dumps(list(self.groups))} if self.groups else {}

    def runs_once(self) -> bool:
        """Return True if the script of a training job runs once on each host, as without a distribution."""
        return self.runner in _OF_TENSORFLOW


def check_distribution(
    wanted: Distribution, kind: str, groups: Sequence[InstanceGroup], receive: Sequence[str] = (), contract: str = "v2"
) -> None:
    """Check that the hosts of a job can run a distribution.

    :raises ValidationError: the kind of job, the number of processes, the group, or returned variables prevent it.
    """
    names = [group.name for group in groups]
    unknown = next((name for name in wanted.groups if name not in names), "")
    said: tuple[str, str, str] | None = None
    if wanted.runner == "pyspark":
        said = _spark_error(wanted, kind, names)
    elif kind != "train":
        rule = f"As on SageMaker, {wanted.runner} is for training jobs only."
        said = ("not available for processing jobs", rule, "Use %%train, or for Spark --distribution pyspark.")
    elif wanted.runs_once() and (contract == "v3" or wanted.processes is not None):
        said = _tensorflow_error(wanted, contract)
    elif contract == "v3" and wanted.groups:
        rule = "With SDK 3 a distributed script runs on all hosts of the job."
        said = (f"groups={wanted.groups[0]} is not supported by --contract v3", rule, "Remove groups or --contract.")
    elif wanted.processes is not None and wanted.processes < 1:
        said = (f"processes={wanted.processes}", "Each host runs at least one process.", "")
    elif unknown:
        said = (f"there is no group {unknown}", f"The groups are {', '.join(names)}.", suggest_names(unknown, names))
    elif len(wanted.groups) > 1 or (len(names) > 1 and not wanted.groups and contract == "v2"):
        rule = "As on SageMaker, exactly one group is distributed; the other groups run the script without a launcher."
        said = (
            f"groups= has {len(wanted.groups)} of {len(names)} groups, but it needs exactly one",
            rule,
            f"For example ,groups={names[0]}.",
        )
    elif receive and not wanted.runs_once():
        rule = "A distributed script runs in several processes, so none of them has the cell's variables."
        said = (
            "--receive is not supported",
            rule,
            "Remove --receive, and write results to /opt/ml/model.",
        )
    if said is not None:
        raise ValidationError(
            f"--distribution {wanted.runner}: {said[0]}.",
            field="distribution",
            value=wanted.option_value(),
            rule=said[1],
            cure=said[2],
        )


def _tensorflow_error(wanted: Distribution, contract: str) -> tuple[str, str, str]:
    if contract == "v3":
        rule = "SDK 3 supports torchrun and mpi only; SageMaker's images provide TensorFlow's strategies."
        return ("not supported by --contract v3", rule, "Remove --contract.")
    rule = "TensorFlow runs one worker on each host, which uses all its GPUs."
    return (f"processes={wanted.processes}", rule, "Remove processes.")


def _spark_error(wanted: Distribution, kind: str, names: Sequence[str]) -> tuple[str, str, str] | None:
    if kind != "process":
        rule = "As with SageMaker's PySparkProcessor, Spark is for processing jobs."
        return ("not available for training jobs", rule, "Use %%process, or torchrun or mpi.")
    if wanted.processes is not None:
        rule = "Each host runs one executor with all its CPUs."
        cure = "Remove processes; for smaller executors set spark.executor.cores in configuration.json."
        return (f"processes={wanted.processes}", rule, cure)
    if wanted.groups or len(names) > 1:
        rule = "A processing job has hosts of one instance type, and all of them run Spark."
        return ("groups are not supported", rule, "Use --instance-type and --instance-count.")
    return None
