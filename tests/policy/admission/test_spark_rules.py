"""Which jobs can have a Spark cluster: processing jobs of one kind of hosts, whose script is Python."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.distribution import Distribution, check_distribution
from jupyter_smx.model.spec.instance import InstanceGroup

ONE = (InstanceGroup(instance_count=3),)
TWO = (InstanceGroup(name="a"), InstanceGroup(name="b"))


def check(kind: str = "process", groups: tuple[InstanceGroup, ...] = ONE, **fields: Any) -> None:
    check_distribution(Distribution(runner="pyspark", **fields), kind, groups, ("x",))


def test_variables_come_back_from_the_one_process_that_runs_the_script() -> None:
    check()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "train"}, r"pyspark: not available for training jobs\..*PySparkProcessor.*Use %%process"),
        ({"processes": 2}, r"pyspark: processes=2\..*one executor with all its CPUs.*cores in configuration\.json"),
        ({"groups": TWO}, r"pyspark: groups are not supported\..*--instance-count"),
        ({"groups": (InstanceGroup(name="a"),)}, ""),
    ],
)
def test_what_has_no_cluster_is_refused_with_the_rule(fields: dict[str, Any], said: str) -> None:
    if not said:
        check(**fields)  # of one group only its name is another one
        return
    with pytest.raises(ValidationError, match=said):
        check(**fields)


def test_a_group_of_a_processing_job_cannot_be_chosen() -> None:
    with pytest.raises(ValidationError, match="groups are not supported"):
        check_distribution(Distribution(runner="pyspark", groups=("a",)), "process", ONE)


@pytest.mark.parametrize("runner", ["torchrun", "mpi"])
def test_other_launchers_name_it_to_who_wants_a_processing_job_of_several_hosts(runner: Any) -> None:
    with pytest.raises(ValidationError, match="for Spark --distribution pyspark"):
        check_distribution(Distribution(runner=runner), "process", ONE)
