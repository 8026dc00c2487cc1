"""The batch job of a request: words for sbatch, time limit, script."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from slurm_requests import NAME, host, request

from jupyter_smx.agent.remote import allocation
from jupyter_smx.engines.slurm import commands, pilot_source, submission
from jupyter_smx.engines.slurm.parsers import PartitionRow
from jupyter_smx.engines.slurm.submission import AllocationTime
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import HostSpec
    from jupyter_smx.engines.slurm.submission import BatchJob

TIME = AllocationTime(reserve=180.0, notice=120.0)


def planned(
    *hosts: HostSpec,
    options: dict[str, str] | None = None,
    rows: Sequence[PartitionRow] = (),
    time: AllocationTime = TIME,
) -> BatchJob:
    return submission.plan_submission(request(*hosts), options or {}, time, NAME, rows)


def test_a_host_is_a_node_with_its_cpus_and_memory() -> None:
    (group,) = planned(host("algo-1"), host("algo-2")).groups
    assert group.words == ("--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=4096M")


def test_gpus_are_generic_resources_unless_the_type_names_its_own() -> None:
    assert "--gres=gpu:2" in planned(host(gpus=2)).groups[0].words
    assert "--gres=gpu:a100:1" in planned(host(gpus=2, options={"gres": "gpu:a100:1"})).groups[0].words


def test_options_of_the_type_replace_those_of_the_configuration() -> None:
    words = (
        planned(
            host(options={"partition": "gpu", "cpus": "8", "memory_gib": "64"}),
            options={"partition": "main", "account": "lab", "exclusive": "true", "words": "--mail-type=END --nice=5"},
        )
        .groups[0]
        .words
    )
    assert {"--partition=gpu", "--account=lab", "--cpus-per-task=8", "--mem=65536M", "--exclusive"} <= {*words}
    assert words[-2:] == ("--mail-type=END", "--nice=5")
    assert "--partition=main" not in words


def test_an_option_that_the_engine_does_not_have_is_refused() -> None:
    with pytest.raises(RefusedError) as told:
        planned(host(options={"partitoin": "gpu"}))
    assert "partitoin" in told.value.message


def test_the_time_limit_is_run_time_and_keep_alive_and_a_reserve() -> None:
    assert planned().seconds == 3_600 + 600 + 180


def test_the_time_limit_is_at_most_that_of_the_partition_and_of_the_configuration() -> None:
    rows = [PartitionRow(name="main", is_default=True, limit=2_000.0), PartitionRow(name="long", limit=None)]
    assert planned(rows=rows).seconds == 2_000
    assert planned(rows=rows, options={"partition": "long"}).seconds == 4_380
    assert planned(rows=rows, time=AllocationTime(longest=1_000.0)).seconds == 1_000


def test_groups_are_components_of_one_job() -> None:
    hosts = [host("algo-1", "gpu", gpus=1), host("algo-2", "cpu"), host("algo-3", "cpu")]
    words = shlex.split(commands.submit(planned(*hosts)))
    first, second = " ".join(words).split(" : ")
    assert "--gres=gpu:1" in first
    assert "--nodes=1" in first
    assert "--nodes=2" in second
    assert "--job-name" in first
    assert "--job-name" not in second


def test_a_submission_signals_the_batch_step_alone_and_is_never_queued_again() -> None:
    words = shlex.split(commands.submit(planned()))
    assert words[:2] == ["sbatch", "--parsable"]
    assert {"--signal=B:USR1@120", "--no-requeue", "--export=NIL", "--chdir=/", f"--job-name={NAME}"} <= {*words}


def test_the_script_has_the_source_of_what_runs_on_nodes_and_a_plan() -> None:
    text = submission.script(planned(), pilot_source.read(), "/tmp/jupyter_smx-1", "python3", "/opt/slurm/bin")  # noqa: S108
    assert f"\n{pilot_source.read()}END_OF_SOURCE\n" in text
    plan = json.loads(re.search(r"^plan='(.*)'$", text, re.MULTILINE)[1])  # type: ignore[index]
    assert (plan["job"], plan["name"], plan["groups"]) == ("@JOB@", NAME, [{"nodes": 1, "cpus": 2}])
    assert "END_OF_SOURCE" not in pilot_source.read()
    assert "'" not in json.dumps(plan)


def run_script(folder: Path, python: str) -> subprocess.CompletedProcess[bytes]:
    """Run the batch script with a source that prints, as a node would."""
    text = submission.script(planned(), "print('pilot')\n", os.fspath(folder), python, "/usr/bin")
    return subprocess.run(["/bin/sh", "-s"], input=text.encode(), capture_output=True, check=False, timeout=30)


def test_the_script_runs_in_a_folder_of_its_user_alone_and_logs_there(tmp_path: Path) -> None:
    folder = tmp_path / "hosts"
    assert run_script(folder, sys.executable).returncode == 0
    assert (folder / "allocations.log").read_text() == "pilot\n"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_script_says_by_its_exit_code_that_python_is_missing_or_old(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert run_script(tmp_path / "hosts", os.fspath(old)).returncode == submission.EXIT_OLD_PYTHON
    assert run_script(tmp_path / "hosts", "no-such-python").returncode == submission.EXIT_NO_PYTHON


@pytest.mark.parametrize("is_link", [True, False])
def test_the_script_writes_nothing_into_a_folder_that_others_can_write(tmp_path: Path, is_link: bool) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "hosts").symlink_to(other) if is_link else other.chmod(0o777)
    assert run_script(tmp_path / "hosts" if is_link else other, sys.executable).returncode == allocation.EXIT_FOLDER
    assert [*other.iterdir()] == []


def test_a_home_folder_is_the_one_of_the_node() -> None:
    assert submission.folder_word("~/a b") == "\"$HOME\"'/a b'"
    assert submission.folder_word("/scratch/x y") == "'/scratch/x y'"


def test_the_cluster_of_a_name_is_found_for_its_owner_only() -> None:
    name = submission.job_name("0a1b2c3d4e5f", "f00d")
    assert name == NAME
    assert submission.cluster_of("0a1b2c3d4e5f", name) == "f00d"
    assert submission.cluster_of("ffffffff", name) == ""


def test_variables_of_a_surrounding_job_are_left_out_but_not_those_that_choose_the_cluster() -> None:
    variables = ["PATH", "SLURM_JOB_ID", "SBATCH_WAIT", "SLURM_CONF", "PMIX_RANK", "SLURM_CLUSTERS"]
    assert commands.clean_environment(variables) == ["SLURM_JOB_ID", "SBATCH_WAIT", "PMIX_RANK"]


@pytest.mark.parametrize("name", ["ACCOUNT", "PARTITION", "QOS", "RESERVATION", "CONSTRAINT"])
def test_defaults_that_a_user_set_for_sbatch_are_kept(name: str) -> None:
    assert commands.clean_environment([f"SBATCH_{name}", "SLURM_PARTITION"]) == ["SLURM_PARTITION"]


def test_jobs_and_partitions_are_listed_even_where_a_partition_is_hidden() -> None:
    assert "--all" in shlex.split(commands.queue())
    assert "--all" in shlex.split(commands.partitions())


def test_a_step_on_a_node_names_its_component_only_in_a_heterogeneous_job() -> None:
    plain, het = (shlex.split(commands.on_node("12", component, "n1", "true")) for component in (None, 1))
    assert "--het-group=1" in het
    assert not any(word.startswith("--het-group") for word in plain)
    assert {"--overlap", "--mem=0", "--unbuffered", "--nodelist=n1"} <= {*plain}
    assert plain[-3:] == ["/bin/sh", "-c", "true"]


@pytest.mark.parametrize(
    ("listed", "expected"), [("12\n13\n", False), ("9\n12\n", True), ("9+0\n9+1\n12", True), ("", False)]
)
def test_a_pilot_ends_if_an_older_job_has_its_name(listed: str, expected: bool) -> None:
    assert allocation.is_older_job_queued("12", listed.split()) is expected
