"""``--distribution mpi`` with real Open MPI on several machines: by address, with the key of the job, without sshd."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytorch import with_mpi4py
from worlds.machine_libraries import packages_on
from worlds.ranks_meet import REDUCE, WAIT, check_reduced, log, ranks

from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ssh_controller import SshControllerWorld
    from world import Ran
    from worlds.ssh.machine import Machine

pytestmark = [
    pytest.mark.heavy("mpi"),
    pytest.mark.skipif(
        shutil.which("mpirun") is None, reason="Open MPI is not installed: apt-get install openmpi-bin libopenmpi-dev"
    ),
]


@pytest.fixture
def machines(ssh_controller: SshControllerWorld) -> Iterator[list[Machine]]:
    """Give two machines whose Python has mpi4py."""
    with packages_on(ssh_controller.machines, with_mpi4py(), "mpi4py") as found:
        yield found


def submit(world: SshControllerWorld, body: str, **fields: Any) -> Ran:
    wish = {"engine": "ssh", "instance_groups": (InstanceGroup(instance_count=2),)}
    return world.submit(body, **wish | {"distribution": Distribution(runner="mpi", processes=2)} | fields)


@pytest.mark.usefixtures("machines")
def test_two_ranks_on_each_of_two_machines_reduce_together_also_on_warm_hosts(
    ssh_controller: SshControllerWorld,
) -> None:
    first = submit(ssh_controller, REDUCE, keep_alive=600)
    check_reduced(first)
    second = submit(ssh_controller, REDUCE)
    check_reduced(second)
    assert second.why().startswith("Warm")
    assert [artifact.name for artifact in second.job().artifacts if "model" in artifact.name]


def folders_of(ran: Ran, program: str) -> list[Path]:
    """Give the folders for programs of mpirun, as a running program of Open MPI on a host sees them."""
    everything = process_scan.cluster_processes(ran.job().cluster)
    found = [seen for seen in everything if seen.command.split(" ")[0].endswith(program)]
    return [*Path("/proc", str(found[0].pid), "root/tmp").glob("smx-mpi-*")]


def test_while_ranks_run_no_process_shows_the_key_and_no_port_is_open_for_it(
    ssh_controller: SshControllerWorld, machines: list[Machine]
) -> None:
    ran = submit(ssh_controller, WAIT)
    eventually_blocking(lambda: log(ran, "algo-1").count("waits") == 4, "all ranks wait", within=60.0)
    (leading,), (other,) = folders_of(ran, "mpirun"), folders_of(ran, "orted")
    settings = leading / "hosts.json"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert sorted(path.name for path in other.iterdir()) == ["rank", "reach"]
    told = json.loads(settings.read_text())
    for seen in process_scan.cluster_processes(ran.job().cluster):
        assert told["key"] not in seen.command
        with contextlib.suppress(OSError):  # it may have ended
            assert told["key"] not in Path("/proc", str(seen.pid), "environ").read_text(errors="replace")
    address, port = told["ends"]["algo-2"]
    assert address == machines[1].address
    assert f":{port} " not in machines[1].run("ss -tln").stdout, "nothing listens once the host was reached"
    ssh_controller.client.stop(ran.id)
    assert ran.wait().state.value == "Stopped"


def test_without_namespaces_each_rank_has_the_paths_of_its_own_machine(
    ssh_controller: SshControllerWorld, machines: list[Machine], configure: Callable[[str], None]
) -> None:
    configure("c.SshEngine.isolate = False")
    ran = submit(ssh_controller, REDUCE)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, log(ran, "algo-1"), log(ran, "algo-2"))
    found = ranks(log(ran, "algo-1"))
    names = [machine.plan.host_name for machine in machines for _ in range(2)]
    assert [facts[:5] for _, facts in found] == [[name, rank, 4, 1111, True] for rank, name in enumerate(names)]
    folders = [facts[5] for _, facts in found]
    assert [re.findall(r"algo-\d", folder)[-1] for folder in folders] == ["algo-1", "algo-1", "algo-2", "algo-2"]


@pytest.mark.usefixtures("machines")
def test_two_hosts_on_one_machine_meet_there_as_on_this_one(ssh_controller: SshControllerWorld) -> None:
    check_reduced(submit(ssh_controller, REDUCE, engine="ssh:smx-one"))


@pytest.mark.usefixtures("machines")
def test_three_hosts_on_two_machines_are_refused_with_the_reason(
    ssh_controller: SshControllerWorld, configure: Callable[[str], None]
) -> None:
    configure("del c.SshEngine.machines['smx-three']")
    ran = submit(ssh_controller, REDUCE, instance_groups=(InstanceGroup(instance_count=3),))
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "share a machine, and other hosts are on another one" in job.failure_reason
    assert "Use at most as many hosts as machines" in job.failure_reason


def test_another_open_mpi_on_the_other_machine_is_refused_with_both_versions(
    ssh_controller: SshControllerWorld, machines: list[Machine]
) -> None:
    program = machines[1].root / "opt/python/bin/mpirun"
    program.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.3'\n")
    program.chmod(0o755)
    try:
        job = submit(ssh_controller, REDUCE).wait()
    finally:
        program.unlink()
    assert job.state.value == "Failed"
    assert re.search(r"algo-1 has \d[\d.]*, and algo-2 has 5\.0\.3\. Install one version", job.failure_reason)


def test_a_machine_that_the_other_does_not_reach_is_named_with_its_address(
    ssh_controller: SshControllerWorld, machines: list[Machine]
) -> None:
    away = machines[1].address
    machines[0].run(f"ip route add unreachable {away}/32", root=True)
    try:
        job = submit(ssh_controller, REDUCE).wait()
    finally:
        machines[0].run(f"ip route del unreachable {away}/32", root=True)
    assert job.state.value == "Failed"
    assert f"algo-1 cannot reach algo-2 at {away}, port " in job.failure_reason
    assert "Open the firewall between them" in job.failure_reason
