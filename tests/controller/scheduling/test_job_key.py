"""Keys of jobs: the same for each host and each controller, another one for each job, and a secret for this user."""

from __future__ import annotations

import logging
import stat
from typing import TYPE_CHECKING

from jupyter_smx.controller.scheduling.job_key import JobKeys, derive_key
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from jupyter_smx.testing.simulation.simulation import Simulation


def test_the_next_controller_gives_the_same_keys_and_each_lease_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "hosts.secret"
    first, second = JobKeys(path), JobKeys(path)
    key = first.key_of("a", "c", 1)
    assert key == first.key_of("a", "c", 1) == second.key_of("a", "c", 1)
    others = {first.key_of("a", "c", 2), first.key_of("b", "c", 1), first.key_of("a", "d", 1)}
    assert len({key, *others, JobKeys(tmp_path / "other").key_of("a", "c", 1)}) == 5
    assert len(key) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() not in key
    assert derive_key(path.read_text(), "a", "c", 1) == key
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hosts.secret", "other"]


def test_a_secret_that_was_half_written_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "hosts.secret"
    path.write_text("ab")
    assert JobKeys(path).key_of("a", "c", 1) == JobKeys(path).key_of("a", "c", 1)
    assert len(path.read_text()) == 64


def test_without_a_secret_hosts_get_no_key_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = JobKeys(tmp_path / "missing" / "hosts.secret")
    with caplog.at_level(logging.WARNING):
        assert keys.key_of("a", "c", 1) == ""
    assert "get no key for each other" in caplog.text
    (tmp_path / "missing").mkdir()
    assert keys.key_of("a", "c", 1) != "", "the disk may be repaired"


def test_the_hosts_of_a_job_get_one_key_and_a_host_alone_gets_none(sim: Simulation, tmp_path: Path) -> None:
    sim.controller.reconciler.dispatcher.key_of = JobKeys(tmp_path / "hosts.secret").key_of
    keys = []
    for count in (2, 2, 1):
        job = sim.submit(instance_groups=(InstanceGroup(instance_count=count),))
        sim.pass_time(0.6)
        keys.append({host.runs[job].spec["key"] for host in sim.hosts(job)})
        sim.stop(job)
        sim.pass_time(30)
    assert [len(found) for found in keys] == [1, 1, 1]
    assert keys[0] != keys[1]
    assert keys[2] == {""}


def test_the_next_attempt_has_another_key_though_its_new_hosts_count_from_the_same_lease(
    sim: Simulation, tmp_path: Path
) -> None:
    sim.controller.reconciler.dispatcher.key_of = JobKeys(tmp_path / "hosts.secret").key_of
    job = sim.submit(instance_groups=(InstanceGroup(instance_count=2),), retries=1)
    sim.pass_time(0.6)
    seen = []
    for _ in range(2):
        seen.append((sim.job(job).cluster, sim.job(job).lease, sim.hosts(job)[0].runs[job].spec["key"]))
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(30)
    (cluster, lease, key), (next_cluster, next_lease, next_key) = seen
    assert cluster != next_cluster
    assert lease == next_lease
    assert key != next_key
