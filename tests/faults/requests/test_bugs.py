"""Bugs that other systems shipped, by their numbers in our catalogue, against everything together.

Those that one part alone can have are tested beside that part, under the same kind of name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from world import PATIENCE, python_behind, spec_of

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from world import World

    from jupyter_smx.model.results.reports import Why


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


LOOP = 30
ROUNDS = 100
CREEP = {"controller": 1024, "agent": 512, "zygote": 128}
"""Kilobytes that a hundred jobs may leave once all caches are full."""


def test_bug_01_no_log_or_result_of_a_job_is_read_as_one_of_another(shared: World) -> None:
    for number in range(LOOP):
        job = shared.submit(f"print('number', {number})")
        assert job.wait().state is SecondaryStatus.COMPLETED
        assert (job.log(), job.runs()) == (f"begun\nnumber {number}\ndone\n", 1)


def test_bug_04_a_preload_that_failed_is_said_to_the_next_job(world: World) -> None:
    imports = ("a_module_of_nobody", "decimal")
    world.run(imports=imports)

    def told() -> list[str]:
        return [note for note in planned(world, imports=imports).notes if imports[0] in note]

    (note,) = eventually_blocking(told, "why speaks of the preload", within=PATIENCE)
    assert note.startswith("Not preloaded: a_module_of_nobody, ")
    assert "No module named" in note
    why = world.run(imports=imports).job().why
    assert why is not None
    assert (why.start, note in why.notes) == ("warm", True)


def planned(world: World, **fields: Any) -> Why:
    """Ask how a job would start; nothing is created."""
    why = world.client.plan(spec_of(world, **fields)).why
    assert why is not None
    return why


def test_bug_12_hosts_that_are_not_ready_are_given_to_nobody(world: World) -> None:
    gate = world.gate()
    python = python_behind(gate, world.folder)
    job = world.submit(python=python)
    eventually_blocking(world.agents, "the host is on its way", within=PATIENCE)
    why = planned(world, python=python)
    assert why.start == "cold"
    assert [row.found for row in why.differences] == ["Provisioning"]
    assert (job.job().state, job.runs()) == (SecondaryStatus.STARTING, 0)
    gate.touch()
    assert job.wait().state is SecondaryStatus.COMPLETED
    # Ready means that a job goes through, and at once.
    assert world.run(python=python).why().startswith("Warm: ")


OTHERS: dict[str, dict[str, Any]] = {
    "role": {"role": "another"},
    "python": {"python": "/usr/bin/another-python"},
    "instance type": {"instance_groups": (InstanceGroup(instance_type="ml.m5.large"),)},
    "instance count": {"instance_groups": (InstanceGroup(instance_count=2),)},
    "group name": {"instance_groups": (InstanceGroup(name="another"),)},
}
ALIKE: list[dict[str, Any]] = [
    {"environment": {"A": "b"}},
    {"hyperparameters": {"lr": "1"}},
    {"source": "another = 1"},
    {"keep_alive": 5},
    {"max_run": 5},
    {"kind": "process"},
    {"base_name": "another"},
]


@pytest.mark.parametrize("field", OTHERS)
def test_bug_13_hosts_that_differ_in_one_field_are_not_taken_and_the_field_is_named(shared: World, field: str) -> None:
    why = planned(shared, **OTHERS[field])
    assert why.start == "cold"
    assert field in [row.field for row in why.differences]
    assert field in why.sentence


@pytest.mark.parametrize("change", ALIKE, ids=lambda change: next(iter(change)))
def test_bug_13_what_is_no_part_of_the_hosts_makes_nothing_cold(shared: World, change: dict[str, Any]) -> None:
    assert planned(shared, **change).start == "warm"


def test_bug_14_and_18_a_serial_loop_is_warm_after_its_first_job(world: World) -> None:
    before = world.clusters_ever()
    jobs = [world.run() for _ in range(LOOP)]
    assert [job.why().split(":")[0] for job in jobs] == ["Cold"] + ["Warm"] * (LOOP - 1)
    assert [job.runs() for job in jobs] == [1] * LOOP
    assert world.clusters_ever() - before == 1
    reused = [job.job().warm_pool for job in jobs[:-1]]
    assert [pool.reused_by_job for pool in reused if pool] == [job.name for job in jobs[1:]]


def test_bug_18_jobs_that_come_too_early_wait_for_the_pool_and_find_it(
    own_world: World, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.max_hosts = 1")
    jobs = [own_world.submit() for _ in range(6)]
    assert [job.wait().state for job in jobs] == [SecondaryStatus.COMPLETED] * 6
    assert [job.why().split(":")[0] for job in jobs] == ["Cold"] + ["Warm"] * 5
    assert own_world.clusters_ever() == 1
    notes = [why.notes for job in jobs[1:] if (why := job.job().why)]
    assert all(any("in the queue" in note for note in each) for each in notes), notes


def test_bug_15_what_a_job_wishes_reaches_it_at_its_start_and_makes_nothing_cold(shared: World) -> None:
    source = "import json\nprint(json.dumps([os.environ.get('SECRET'), os.getcwd(), os.environ['SM_HPS']]))"
    first = shared.run(source, environment={"SECRET": "of the first"}, hyperparameters={"lr": "1"})
    second = shared.run(source, hyperparameters={"lr": "2"})
    third = shared.run(source, environment={"SECRET": "of the third"})
    told = [json.loads(job.log().splitlines()[1]) for job in (first, second, third)]
    assert [secret for secret, _, _ in told] == ["of the first", None, "of the third"]
    assert [json.loads(parameters) for _, _, parameters in told] == [{"lr": 1}, {"lr": 2}, {}]
    assert len({folder for _, folder, _ in told}) == 1
    assert all(job.why().startswith("Warm: ") for job in (first, second, third))
    for seen in process_scan.cluster_processes(shared.cluster()):
        assert not any(line.startswith(b"SECRET=") for line in seen.environment), seen.command


def _kilobytes(pid: int) -> int:
    """Count the memory of a process that no file backs."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0])


@pytest.mark.heavy("faults")
def test_bug_19_memory_does_not_creep_over_many_jobs(own_world: World) -> None:
    # Nothing but jobs may grow in between: imports are learnt by the first few.
    for _ in range(20):
        own_world.run()
    eventually_blocking(lambda: len(own_world.zygotes()) == 1, "one zygote serves")
    (zygote,) = own_world.zygotes()
    pids = {"controller": own_world.controller(), "agent": own_world.agent(), "zygote": zygote}

    def sizes() -> dict[str, int]:
        return {name: _kilobytes(pid) for name, pid in pids.items()}

    rows = []
    for _ in range(3):
        for _ in range(ROUNDS):
            own_world.run()
        rows.append(sizes())
    assert pids == {"controller": own_world.controller(), "agent": own_world.agent(), "zygote": own_world.zygotes()[0]}
    # The first hundred may still fill caches.
    grown = {name: rows[2][name] - rows[1][name] for name in pids}
    assert all(grown[name] < limit for name, limit in CREEP.items()), (grown, rows)
    assert len(os.listdir(f"/proc/{pids['controller']}/fd")) < 60  # noqa: PTH208 - a count of names is all
