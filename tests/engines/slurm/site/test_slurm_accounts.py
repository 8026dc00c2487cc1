"""A cluster with accounts: their names are completed, and the record of a job has what was accounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds.slurm.cluster_files import ACCOUNT, SlurmSite
from worlds.slurm.slurm_fixture import start_cluster
from worlds.ssh import disk

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_controller import SlurmControllerWorld
    from worlds.slurm.slurm_world import SlurmWorld

pytestmark = pytest.mark.heavy("slurm")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWorld]:
    """Give a cluster with accounts."""
    with start_cluster(tmp_path_factory, SlurmSite(accounting=True)) as world:
        yield world


def test_the_record_of_the_last_job_has_what_slurm_accounted(slurm_controller: SlurmControllerWorld) -> None:
    job = slurm_controller.run(keep_alive=600)
    number = slurm_controller.job_id()
    (pool,) = slurm_controller.pools()
    assert pool.nodes == 1
    slurm_controller.client.release(pool.name)

    def figures() -> str:
        return slurm_controller.client.job_bill(job.id).bill.platform_usage

    eventually_blocking(figures, "the pool has ended", within=60.0)
    assert figures().startswith(f"Slurm job {number}: "), figures()
    assert " of CPU time" in figures()
    assert "CANCELLED" not in figures(), "a release is no cancelled job"


def test_accounts_of_the_user_are_completed(slurm_controller: SlurmControllerWorld) -> None:
    def options() -> dict[str, tuple[str, ...]]:
        return slurm_controller.client.engine_names("slurm").options

    eventually_blocking(lambda: ACCOUNT in options()["account"], "Slurm was asked in the background", within=30.0)
    assert "main" in options()["partition"]
    assert options()["qos"]


def test_an_account_of_a_job_that_the_user_does_not_have_is_refused_with_the_accounts(
    slurm_controller: SlurmControllerWorld,
) -> None:
    record = slurm_controller.submit(engine_options={"account": "physics"}).wait()
    assert record.state.value == "Failed"
    assert f"Your accounts are {ACCOUNT}" in record.failure_text()


def test_each_option_of_a_job_is_one_of_its_batch_job(slurm_controller: SlurmControllerWorld) -> None:
    slurm = slurm_controller.slurm
    node = "NodeName=box-one"
    for line in (
        f"sacctmgr -i add qos high && sacctmgr -i modify user {disk.USER} set qos+=high",
        f"scontrol update {node} AvailableFeatures=nvlink ActiveFeatures=nvlink",
        f"scontrol create reservation ReservationName=course Users={disk.USER} Nodes=box-one StartTime=now Duration=60",
    ):
        slurm.run(line, root=True)
    options = {"partition": "main", "account": ACCOUNT, "qos": "high", "constraint": "nvlink", "exclusive": "true"}
    options |= {"reservation": "course", "time": "20m", "words": "--nice=7"}
    try:
        slurm_controller.run(keep_alive=600, engine_options=options)
        text = slurm.run(f"scontrol --oneliner show job {slurm_controller.job_id()}")
        shown = parsers.parse_record(text)
        names = {"Partition": "partition", "Account": "account", "QOS": "qos", "Features": "constraint"}
        names |= {"Reservation": "reservation"}
        assert {name: shown[name] for name in names} == {name: options[option] for name, option in names.items()}
        assert (shown["TimeLimit"], shown["Nice"], shown["OverSubscribe"]) == ("00:20:00", "7", "NO")
        for name, word in (("qos", "qos"), ("constraint", "feature"), ("reservation", "reservation")):
            record = slurm_controller.submit(engine_options={**options, name: "nowhere"}).wait()
            assert record.state.value == "Failed"
            assert word in record.failure_reason.lower(), record.failure_reason
    finally:
        (pool,) = slurm_controller.pools()
        slurm_controller.client.release(pool.name)
        eventually_blocking(lambda: not slurm.jobs(), "the reservation is free", within=60.0)
        slurm.run("scontrol delete ReservationName=course", root=True)
