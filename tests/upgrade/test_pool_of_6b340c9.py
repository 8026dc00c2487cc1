"""A warm pool that a controller of 6b340c9 made goes on under the next controller, of this tree as of that commit."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from recorded_data import PATIENCE, Asker, controller, start, variables, wait_for

from jupyter_smx.testing import process_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COMMIT = "6b340c9"
HELLO = 'import os\nprint("hello", os.environ["SM_HP_N"])\n'
GATED = (
    "import os, time\nprint('begun', flush=True)\n"
    "while not os.path.exists(os.environ['GATE']):\n    time.sleep(0.002)\nprint('done')\n"
)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the package as it was; the history of this checkout must have the commit."""
    packed = subprocess.run(
        [shutil.which("git") or "git", "-C", str(ROOT), "archive", COMMIT, "jupyter_smx"],
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        pytest.skip(f"This checkout has no commit {COMMIT}: {packed.stderr.decode().strip()}")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    # Under PYTHONDONTWRITEBYTECODE each controller and command would compile it again.
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)
    return folder


class Site:
    """A folder for data and work, and the packages that are run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asker = Asker(folder)
        (folder / "hello.py").write_text(HELLO)
        (folder / "gated.py").write_text(GATED)

    def command(self, package: Path, *words: str) -> str:
        """Run ``jupyter smx`` of a package and give what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_smx.cli", *words],
            cwd=self.folder,
            env=variables(self.folder) | {"PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done
        return done.stdout

    def run(self, package: Path, name: str) -> dict[str, Any]:
        """Run a job that keeps its hosts for an hour, to its end, and give its record."""
        self.command(package, "run", "hello.py", "-k", "1h", "--hp", "n=1", "--name", name)
        return self.job(name)

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.asker.get(f"/v1/jobs/{name}")
        return found

    def pool(self) -> dict[str, Any]:
        """Wait until the one pool is idle."""
        (pool,) = wait_for(self._idle_pools, "the pool is idle")
        return dict(pool)

    def _idle_pools(self) -> list[dict[str, Any]]:
        pools = self.asker.get("/v1/pools")["pools"]
        return [pool for pool in pools if pool["state"] == "Available"]

    def kill_controller(self, process: subprocess.Popen[str]) -> None:
        """Kill the controller, and nothing else."""
        process.kill()
        process.communicate()

    def hosts(self) -> list[str]:
        """Name the clusters that have a process."""
        clusters = [path.name for path in (self.folder / "data" / "clusters").glob("*/")]
        return [cluster for cluster in clusters if process_scan.cluster_processes(cluster)]

    def release(self, package: Path) -> None:
        """Release the idle pool; no host may be left."""
        self.command(package, "release", self.pool()["name"])
        wait_for(lambda: not self.asker.get("/v1/pools")["pools"], "the pool ended")
        assert self.hosts() == []


@pytest.fixture
def site(short_folder: Path, old: Path) -> Iterator[Site]:
    """Give a site where no controller runs yet."""
    made = Site(short_folder)
    yield made
    (short_folder / "gate").touch()
    if made.hosts():  # the test failed
        with controller(short_folder, old):
            made.release(old)


@pytest.fixture(params=["6b340c9", "this tree"])
def next_package(request: pytest.FixtureRequest, old: Path) -> Path:
    """Give the package of the next controller: of the commit itself, to see what an upgrade meant there, and ours."""
    return old if request.param == COMMIT else ROOT


def test_an_idle_pool_takes_the_next_job_of_the_next_controller(site: Site, old: Path, next_package: Path) -> None:
    process = start(site.folder, old)
    first = site.run(old, "first")
    before = site.pool()
    agent = process_scan.agents(before["id"])
    site.kill_controller(process)
    assert process_scan.agents(before["id"]) == agent
    with controller(site.folder, next_package):
        found = site.pool()
        kept = ("id", "name", "state", "created_at", "expires_at", "last_job", "jobs_served", "isolation")
        assert {name: found[name] for name in kept} == {name: before[name] for name in kept}
        # The agent may have imported more since then.
        assert {*found["preloaded"]} >= {*before["preloaded"]}
        second = site.run(next_package, "second")
        assert second["why"]["sentence"] == f"Warm: reused pool {before['name']} after {first['name']}."
        assert (second["state"], second["cluster"]) == ("Completed", before["id"])
        assert site.asker.get("/v1/jobs/second/logs")["text"] == "hello 1\n"
        assert site.pool()["jobs_served"] == 2
        assert process_scan.agents(before["id"]) == agent
        assert site.job("first")["warm_pool"]["reused_by_job"] == second["name"]
        (packed,) = [path for path in (site.folder / "data").glob("agent-*.pyz") if _has_old_modules(path)]
        assert str(packed) in " ".join(process_scan.arguments(agent["algo-1"]))
        site.release(next_package)
        assert site.job("second")["warm_pool"]["status"] == "Terminated"


def _has_old_modules(path: Path) -> bool:
    with ZipFile(path) as packed:
        return any(name.endswith("agent/birth/zygote.py") for name in packed.namelist())


def test_a_job_that_runs_meanwhile_ends_under_the_next_controller(site: Site, old: Path) -> None:
    process = start(site.folder, old)
    gate = site.folder / "gate"
    words = ("run", "gated.py", "-k", "1h", "--name", "gated", "--detach", "--env", f"GATE={gate}")
    site.command(old, *words)
    logs = "/v1/jobs/gated/logs"
    wait_for(lambda: "begun" in site.asker.get(logs)["text"], "it began")
    site.kill_controller(process)
    with controller(site.folder, ROOT):
        assert site.job("gated")["state"] == "Training"
        gate.touch()
        wait_for(lambda: site.job("gated")["ended_at"], "its end")
        ended = site.job("gated")
        assert (ended["state"], ended["attempt"], ended["placements"]) == ("Completed", 1, 1)
        assert site.asker.get(logs)["text"] == "begun\ndone\n"
        pool = site.pool()
        assert (pool["id"], pool["last_job"], pool["jobs_served"]) == (ended["cluster"], ended["name"], 1)
        site.release(ROOT)
