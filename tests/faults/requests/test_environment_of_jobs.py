"""Requirements on the whole way: a real controller, real builds from wheels that lie here, real hosts, and deaths."""

from __future__ import annotations

import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from world import PATIENCE, kill

from jupyter_smx.kernel.request import interpreters
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.rerun_spec import spec_for_rerun
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from world import Ran, World

OWN = interpreters.InterpreterChoice(
    python=sys.executable, python_version=f"{sys.version_info[0]}.{sys.version_info[1]}"
)
BACKEND = """\
import os, pathlib, shutil, time
def build_wheel(folder, *args, **kwargs):
    pathlib.Path({begun!r}).write_text(str(os.getpid()))
    while not os.path.exists({gate!r}):
        time.sleep(0.01)
    return shutil.copy({wheel!r}, folder).rpartition("/")[2]
"""


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a folder with requirements.txt, which wants beta 1.0 from a wheel beside it."""
    write_wheel(tmp_path / "project" / "wheels", "alpha", "1.0")
    write_wheel(tmp_path / "project" / "wheels", "beta", "1.0", needs=("alpha",))
    file = tmp_path / "project" / "requirements.txt"
    file.write_text("--no-index\n--find-links wheels\nbeta==1.0\n")
    return file.parent


def wish(project: Path, python: str = "", required: str = "requirements.txt") -> dict[str, Any]:
    """Read what a cell with these options would ask for."""
    chosen = interpreters.choose_interpreter(python, required, OWN, project)
    return {
        "python": chosen.python,
        "python_version": chosen.python_version,
        "requirements": chosen.requirements,
        "requirements_only": chosen.requirements_only,
    }


def notes(ran: Ran) -> str:
    why = ran.job().why
    return " ".join(why.notes) if why else ""


def slow(project: Path, gate: Path) -> Path:
    """Let the requirements want a project whose build waits for a gate; gives a file with the id of its process."""
    folder, begun = project / "slow", project / "begun"
    folder.mkdir()
    wheel = write_wheel(project / "built", "slow", "1.0")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "slow"\nversion = "1.0"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    text = BACKEND.format(begun=str(begun), gate=str(gate), wheel=str(wheel))
    (folder / "backend.py").write_text(text)
    (project / "requirements.txt").write_text("--no-index\n./slow\n")
    return begun


def find_built_environments(world: World) -> set[Path]:
    """Find the environments that were built to their end."""
    return {*(world.data / "environments").glob("*/ready.json")}


def built_by(begun: Path) -> int:
    """Wait until a build is under way, and give its process."""
    eventually_blocking(lambda: begun.exists() and begun.read_text(), "the build's beginning", within=PATIENCE)
    return int(begun.read_text())


def test_a_job_has_its_requirements_on_top_of_the_kernels_packages_and_the_next_one_is_warm(
    world: World, project: Path
) -> None:
    body = "import beta, alpha, msgspec\nprint(beta.version, alpha.version, msgspec.__name__)"
    first = world.run(body, **wish(project))
    assert "1.0 1.0 msgspec" in first.log()
    assert "Its environment (beta==1.0) was built in " in notes(first)
    (project / "requirements.txt").write_text("--no-index\n--find-links wheels\n\nBeta == 1.0  # the same\n")
    second = world.run(body, **wish(project))
    assert second.why().startswith("Warm: ")
    assert "Its environment (beta==1.0) was ready." in notes(second)
    plain = world.run("import importlib.util\nassert importlib.util.find_spec('beta') is None")
    assert "has environment beta==1.0, this job needs without requirements." in plain.why()


def test_a_rerun_needs_no_file_any_more(world: World, project: Path) -> None:
    first = world.run("import beta", **wish(project))
    (project / "requirements.txt").unlink()
    again = world.client.submit(secrets.token_hex(16), spec_for_rerun(first.job(), 0.0))
    assert world.client.wait(again.id, PATIENCE).state is SecondaryStatus.COMPLETED


def test_an_environment_of_its_own_sees_nothing_else(world: World, project: Path) -> None:
    alone = wish(project, python="uv:requirements.txt", required="")
    ran = world.run("import beta, sys\ntry:\n    import msgspec\nexcept ImportError:\n    print('alone')", **alone)
    assert "alone" in ran.log()


def test_a_build_that_fails_fails_the_job_with_package_exit_code_and_cure(world: World, project: Path) -> None:
    (project / "requirements.txt").write_text("--no-index\nnosuchpackage==3\n")
    job = world.submit(**wish(project)).wait()
    assert job.state is SecondaryStatus.FAILED
    assert job.failure_reason.startswith("AlgorithmError: InstallRequirementsError: --requirements: nosuchpackage")
    assert "ended with exit code 1" in job.failure_reason
    assert "Correct the name or the version" in job.failure_reason
    assert world.pools() == ()


def test_a_build_holds_up_nobody_and_a_stop_ends_it(world: World, project: Path) -> None:
    begun = slow(project, world.gate())
    before = find_built_environments(world)
    builds = world.submit(**wish(project))
    pid = built_by(begun)
    builds.until(lambda job: "Building the environment: " in job.transitions[-1].status_message, "the message")
    world.run()
    world.client.stop(builds.id)
    assert builds.wait().state is SecondaryStatus.STOPPED
    eventually_blocking(lambda: not psutil.pid_exists(pid), "the build's end")
    assert find_built_environments(world) == before


def test_a_controller_that_is_killed_in_a_build_leaves_nothing_ready_and_the_next_one_builds_again(
    own_world: World, project: Path
) -> None:
    gate = own_world.gate()
    begun = slow(project, gate)
    ran = own_world.submit("import slow\nprint(slow.version)", **wish(project))
    pid = built_by(begun)
    kill(own_world.controller())
    eventually_blocking(lambda: not psutil.pid_exists(pid), "the orphaned build's end")
    assert not find_built_environments(own_world)
    begun.unlink()
    own_world.controller()
    assert built_by(begun) != pid
    gate.touch()
    assert ran.wait().state is SecondaryStatus.COMPLETED
    assert ran.runs() == 1
    assert "1.0" in ran.log()


def test_another_interpreter_runs_the_job_and_its_pool_is_not_taken_by_others(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    chosen = interpreters.choose_interpreter(str(other), "", OWN, tmp_path)
    assert chosen.python_version == OWN.python_version
    ran = world.run("import sys\nprint(sys.executable)", python=chosen.python, python_version=chosen.python_version)
    assert str(other / "bin" / "python") in ran.log()
    assert "has python" in world.run().why()
    shutil.rmtree(other)
