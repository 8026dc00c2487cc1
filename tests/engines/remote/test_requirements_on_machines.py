"""Requirements on the whole way to another machine: a controller, an engine over the layer, hosts in an environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import RemoteWorld
    from world import Ran

    from jupyter_smx.model.records.job import Job

UV = Path(sys.executable).parent / "uv"
pytestmark = pytest.mark.skipif(not UV.exists(), reason="uv builds in a moment; pip takes 20 times as long")
BUILDS = "Waiting at the engine shell: Installs requirements on box: "


@pytest.fixture
def box(
    remote: RemoteWorld, configure: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give the home of a machine; jobs ask for it with ``--engine shell``."""
    home = tmp_path / "box"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "uv").symlink_to(UV)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_CACHE_DIR", os.fspath(tmp_path / "cache"))
    configure(f"c.ShellEngine.homes = {{'box': {os.fspath(home)!r}}}\nc.ShellEngine.python = {sys.executable!r}")
    configure("c.ShellEngine.grace = 0.5")
    yield home
    remote.close()
    clusters = [path.name for path in home.glob(".local/share/jupyter_smx/clusters/*")]
    eventually_blocking(lambda: not any(map(process_scan.find_agents, clusters)), "no agent is left")


@pytest.fixture
def lines(tmp_path: Path) -> tuple[str, ...]:
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / "wheels", "alpha", version)
    return "--no-index", f"--find-links {tmp_path / 'wheels'}"


def submit(remote: RemoteWorld, body: str, *lines: str, **fields: Any) -> Ran:
    return remote.submit(body, engine="shell", requirements=lines, **fields)


def notes_of(job: Job) -> tuple[str, ...]:
    return job.why.notes if job.why else ()


def messages(job: Job) -> list[str]:
    return [transition.status_message for transition in job.transitions]


def test_a_job_has_its_requirements_there_and_the_next_one_starts_warm(
    remote: RemoteWorld, box: Path, lines: tuple[str, ...]
) -> None:
    first = submit(remote, "import alpha, sys\nprint(alpha.version, sys.prefix)", *lines, "alpha<2")
    first.until(lambda job: messages(job)[-1].startswith(BUILDS), "the progress of the installation")
    assert first.wait().state is SecondaryStatus.COMPLETED, first.job().failure_reason
    assert f"1.0 {box}/.local/share/jupyter_smx/environments/" in first.log()
    notes = notes_of(first.job())
    assert "Its environment (alpha<2) is built once on the machine of its hosts." in notes
    assert any(note.startswith("It waited ") and note.endswith(" at the engine shell.") for note in notes), notes
    assert not [*(remote.data / "environments").glob("*")], "nothing is built here"
    second = submit(remote, "import alpha\nprint(alpha.version)", *lines, "Alpha < 2")
    assert second.wait().state is SecondaryStatus.COMPLETED
    assert second.why().startswith("Warm: ")
    other = submit(remote, "import alpha\nprint(alpha.version)", *lines, "alpha==2.0")
    assert other.wait().state is SecondaryStatus.COMPLETED
    assert "has environment alpha<2, this job needs alpha==2.0." in other.why()
    assert "2.0" in other.log()


def test_a_wrong_requirement_fails_the_job_and_leaves_no_pool(
    remote: RemoteWorld, box: Path, lines: tuple[str, ...]
) -> None:
    job = submit(remote, "", *lines, "nosuch==3").wait()
    assert job.state is SecondaryStatus.FAILED
    assert job.failure_reason.startswith("AlgorithmError: InstallRequirementsError: --requirements: ")
    assert "nosuch" in job.failure_reason
    assert remote.pools() == ()
    assert not [*box.glob(".local/share/jupyter_smx/clusters/*/algo-1")], "no host was launched"
