"""Hosts without an /opt/ml of their own: the first job of a pool says so, and a failure names the variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

REASON = "unshare: Operation not permitted"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def notes(sim: Simulation, job: str) -> list[str]:
    return [note for note in sim.start_reason(job).notes if "/opt/ml" in note]


def test_the_first_job_of_a_pool_has_a_note_and_the_others_the_isolation(sim: Simulation) -> None:
    sim.world.isolation = {"mode": "variables", "reason": REASON}
    first = sim.submit(keep_alive=600)
    assert (sim.start_reason(first).start, sim.start_reason(first).isolation) == ("cold", "")
    sim.pass_time(1.0)
    (note,) = notes(sim, first)
    assert REASON in note
    assert f"  Isolation: environment variables only\n  {note}" in format_start_reason(sim.job(first))
    sim.restart()
    sim.pass_time(1.0)
    assert notes(sim, first) == [note]
    sim.end_job(first)
    sim.pass_time(1.0)
    second = sim.submit(keep_alive=600)
    sim.pass_time(1.0)
    sim.restart()
    sim.pass_time(1.0)
    why = sim.start_reason(second)
    assert (why.start, why.isolation, notes(sim, second)) == ("warm", "variables", [])


def test_hosts_with_namespaces_have_no_note(sim: Simulation) -> None:
    job = sim.run_to_end()
    assert (sim.start_reason(job).isolation, notes(sim, job)) == ("namespace", [])


def test_the_first_processing_job_of_a_pool_has_a_note_about_its_folder(sim: Simulation) -> None:
    sim.world.isolation = {"mode": "container", "reason": ""}
    found = []
    for kind in ("train", "process", "process"):
        job = sim.submit(kind=kind, keep_alive=600)
        sim.pass_time(1.0)
        sim.restart()
        sim.pass_time(1.0)
        found.append((sim.start_reason(job).start, len(notes(sim, job))))
        sim.end_job(job)
        sim.pass_time(1.0)
    assert found == [("cold", 0), ("warm", 1), ("warm", 0)]


def test_a_cold_processing_job_is_the_first_one_of_its_pool(sim: Simulation) -> None:
    sim.world.isolation = {"mode": "container", "reason": ""}
    found = []
    for start in ("cold", "warm"):
        job = sim.submit(kind="process", keep_alive=600)
        sim.pass_time(1.0)
        assert sim.start_reason(job).start == start
        found.append(len(notes(sim, job)))
        sim.end_job(job)
        sim.pass_time(1.0)
    assert found == [1, 0]


def test_a_failure_at_a_path_below_opt_ml_names_the_variable(sim: Simulation) -> None:
    sim.world.isolation = {"mode": "variables", "reason": REASON}
    job = sim.submit()
    sim.pass_time(1.0)
    message = "[Errno 2] No such file or directory: '/opt/ml/model/a'"
    exception = {"type": "FileNotFoundError", "message": message, "traceback": ""}
    sim.end_job(job, exit_code=1, exception=exception)
    sim.pass_time(1.0)
    assert sim.job(job).failure_cure == (
        f"The host has no /opt/ml of its own ({REASON}). "
        "Use the folder in the variable SM_MODEL_DIR instead of /opt/ml/model."
    )
