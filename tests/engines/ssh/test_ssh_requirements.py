"""Requirements on a machine that SSH reaches and that reaches no index: new, again, wrong, and given up."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ssh_controller import PATIENCE, living
from world import kill

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld
    from worlds.ssh.machine import Machine

    from jupyter_smx.model.records.job import Job

INSTALLS = "Waiting at the engine ssh:smx-one: Installs requirements on smx-one: "
UV = Path(sys.executable).parent / "uv"
pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long")
SLOW_UV = """\
#!/bin/sh
echo "   Building omega"
exec sleep 1000
"""


@pytest.fixture
def lines(tmp_path: Path) -> tuple[str, ...]:
    write_wheel(tmp_path / "wheels", "alpha", "1.0")
    write_wheel(tmp_path / "wheels", "beta", "1.0", needs=("alpha",))
    return "--no-index", f"--find-links {tmp_path / 'wheels'}"


def install_uv(machine: Machine) -> None:
    """Give the account the uv of this machine."""
    shutil.copy(UV, machine.home / "uv")
    machine.run("mkdir -p .local/bin && mv -f uv .local/bin")


def message(job: Job) -> str:
    return job.transitions[-1].status_message


def test_requirements_are_installed_there_once_and_a_wrong_one_fails_the_job(
    shared_controller: SshControllerWorld, lines: tuple[str, ...]
) -> None:
    world, one = shared_controller, shared_controller.world["one"]
    install_uv(one)
    body = "import alpha, beta, sys\nprint(beta.version, sys.prefix)"
    first = world.run(body, requirements=(*lines, "beta"))
    folder = one.home / DEFAULT_FOLDER.removeprefix("~/")
    [environment] = (folder / "environments").iterdir()
    assert f"environments/{environment.name}/venv" in first.log()
    assert not [*(folder / "wheels").iterdir()]
    again = world.run(body, requirements=(*lines, "Beta"))
    assert again.why().startswith("Cold: "), "no pool was kept"
    assert [*(folder / "environments").iterdir()] == [environment]
    assert not [note for note in again.job().why.notes if "It waited" in note], "nothing was installed"
    wrong = world.submit(requirements=(*lines, "nosuch==3")).wait()
    assert wrong.state is SecondaryStatus.FAILED
    assert wrong.failure_reason.startswith("AlgorithmError: InstallRequirementsError: --requirements: nosuch")


@pytest.mark.parametrize("how", ["stop", "killed controller"])
def test_an_installation_ends_with_the_job_or_the_controller_that_asked_for_it(
    ssh_controller: SshControllerWorld, how: str
) -> None:
    world, one = ssh_controller, ssh_controller.world["one"]
    # Another program of that name is moved to its place later, which a running one does not notice.
    one.run("mkdir -p .local/bin && cat > .local/bin/uv && chmod 755 .local/bin/uv", text=SLOW_UV)
    job = world.submit(requirements=("--no-index", "omega"))
    job.until(lambda seen: message(seen) == f"{INSTALLS}Building omega.", "the installer's own words")
    assert living(one)
    if how == "stop":
        world.client.stop(job.id)
        assert job.wait().state is SecondaryStatus.STOPPED
    else:
        install_uv(one)
        kill(world.controller())
    eventually_blocking(lambda: not living(one), "the installer ends there", within=PATIENCE)
    if how != "stop":
        world.controller()
        assert job.wait().state is SecondaryStatus.FAILED, "omega is nowhere"
        assert "omega" in job.job().failure_reason
