"""Containers under a real controller: what the user reads if they end with an error, and that nothing is left."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from containers import CONFIG, MEMORY, Containers, said
from disks import Disk, mounted
from world import PATIENCE, frozen, kill, surround

from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from world import Ran

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.usage import HostUsage
    from jupyter_smx.testing.docker.fixtures import Docker

pytestmark = pytest.mark.heavy("docker")

COMPLETED, FAILED, STOPPED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED, SecondaryStatus.STOPPED
MANY = 20
A_LITTLE = 100_000
"""Bytes: enough for the folder of a host, but not for all that it writes until it is ready."""
TWO = (InstanceGroup(instance_count=2),)
BUSY = """\
import time
held = bytearray(b"x" * (96 << 20))
until = time.process_time() + 1.2
while time.process_time() < until:
    pass
print(time.process_time())
"""
READ = """\
import os, pathlib
top = pathlib.Path(os.environ["SM_CHANNEL_DATA"])
print(sorted((str(path.relative_to(top)), path.read_text()) for path in top.rglob("*") if path.is_file()))
print(pathlib.Path(os.environ["SM_CHANNEL_ONE"]).joinpath("a 'b' \\"c\\"\\nü.csv").read_text())
"""
FILL = """\
with open("/opt/ml/model/big", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
"""


def made(folder: Path, data: Path, docker: Docker, patch: pytest.MonkeyPatch) -> Iterator[Containers]:
    surround(patch, folder, CONFIG, data)
    world = Containers(folder, docker)
    yield world
    world.close()


@pytest.fixture
def containers(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    """Provide a world at the daemon of this session, in a folder whose name breaks careless code."""
    folder = tmp_path / 'it\'s a "nasty"\n$(name) %s, & 日本 ünï'
    folder.mkdir()
    yield from made(tmp_path, folder / "smx", docker, monkeypatch)


@pytest.fixture
def small(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    """Provide a world whose hosts' folders are on a disk of their own of 24 MiB."""
    data = tmp_path / "smx"
    data.mkdir(mode=0o700)
    with mounted(tmp_path / "disk", 24) as disk:
        (data / "clusters").symlink_to(disk.path)
        yield from made(tmp_path, data, docker, monkeypatch)


def is_available(world: Containers, job: Ran) -> bool:
    return any(pool.id == job.job().cluster and pool.state == "Available" for pool in world.pools())


@pytest.mark.timeout(240)
def test_twenty_clusters_at_once_come_up_work_and_leave_nothing(containers: Containers) -> None:
    gate = containers.gate()
    jobs = [containers.submit(gate=gate) for _ in range(MANY)]
    eventually_blocking(lambda: all("begun" in job.log() for job in jobs), "all of them began", within=2 * PATIENCE)
    assert len({job.job().cluster for job in jobs}) == MANY
    assert len(containers.alive()) == MANY, "all of them live at the same time"
    for job in jobs:
        containers.open(job, gate)
    ended = [job.wait() for job in jobs]
    assert [(job.state, job.failure_reason) for job in ended] == [(COMPLETED, "")] * MANY
    assert {job.log() for job in jobs} == {"begun\ndone\n"}
    assert containers.clusters_ever() == MANY, "each was made once"
    containers.nothing_is_left()


def known(usage: HostUsage) -> set[str]:
    """Return the columns and figures that have values."""
    found = msgspec.to_builtins(usage)
    return {name for name, value in found.items() if value and not (isinstance(value, list) and not any(value))}


def test_a_warm_container_is_measured_read_from_and_entered_whatever_its_folder_is_called(
    containers: Containers, tmp_path: Path
) -> None:
    """Utilisation, inputs and shells of one host, beside an idle one with figures of its own."""
    gate, source = containers.gate(), tmp_path / "da\"ta\n '日本' $(x)"
    (source / "in\nner").mkdir(parents=True)
    (source / "a 'b' \"c\"\nü.csv").write_text("1")
    (source / "in\nner" / ",=b.csv").write_text("2")
    idle = containers.submit(gate=gate)
    busy = containers.submit(BUSY, keep_alive=600)
    here = containers.run(BUSY, engine="local")
    assert busy.wait().state is COMPLETED, busy.job().failure_reason
    idle.until_it_says("begun")

    _measured(containers, busy, idle, here)
    channels = (
        Channel(name="data", source=str(source), mode="FastFile"),
        Channel(name="one", source=str(source / "a 'b' \"c\"\nü.csv")),
    )
    warm = containers.submit(READ, channels=channels, keep_alive=600, gate=gate)
    warm.until_it_says("begun")
    assert warm.job().cluster == busy.job().cluster
    _entered(containers, containers.client.shell(warm.id), "live")
    containers.open(warm, gate)
    assert warm.wait().state is COMPLETED, warm.job().failure_reason
    files = sorted([("a 'b' \"c\"\nü.csv", "1"), ("in\nner/,=b.csv", "2")])
    assert warm.log() == f"begun\n{files}\n1\ndone\n"

    pool = busy.job().cluster
    eventually_blocking(lambda: is_available(containers, warm), "the pool is idle", within=PATIENCE)
    _entered(containers, containers.client.pool_shell(pool), "between jobs")
    containers.client.release(pool)
    containers.open(idle, gate)
    assert idle.wait().state is COMPLETED
    figures = containers.client.usage(idle.id).peak
    assert figures is not None
    assert (figures.cpu_seconds or 0) < 1, "it only waited"
    containers.nothing_is_left()


def _measured(world: Containers, busy: Ran, idle: Ran, here: Ran) -> None:
    usage = world.client.usage(busy.id)
    [host] = usage.hosts
    [local] = world.client.usage(here.id).hosts
    assert known(host) - {"notes"} == known(local) - {"notes"}, "the same figures as of a host of this machine"
    assert (host.host, host.cpus, host.memory_total_bytes, usage.is_final) == ("algo-1", 1, MEMORY, True)
    assert len(host.at) == len(host.cpu_percent) == len(host.memory_bytes) >= 3
    assert 96 << 20 < max(filter(None, host.memory_bytes)) < MEMORY
    assert 5 < max(filter(None, host.cpu_percent)) < 150, "however busy this machine is with other things"
    assert usage.peak is not None
    own = float(busy.log().split()[1])
    assert own * 0.9 < (usage.peak.cpu_seconds or 0) < own * 1.5 + 0.5, "what the job says itself, and its end"
    assert 5 < (usage.peak.cpu_percent or 0) < 150
    eventually_blocking(
        lambda: any(row.id == idle.id and row.usage for row in world.client.jobs()), "the other one is measured, too"
    )
    [other] = world.client.usage(idle.id).hosts
    assert max(filter(None, other.memory_bytes)) < 64 << 20, "nothing of its neighbour's is in it"
    rows = (row.usage for row in world.client.jobs() if row.id == idle.id)
    now = next(filter(None, rows))
    assert 0 < (now.memory_bytes or 0) < 64 << 20, "as the sidebar shows it while the job runs"
    assert now.cpu_percent is not None


def _entered(world: Containers, command: list[str], word: str) -> None:
    """Type into a shell of a host as a terminal would, and assert that it is the host's."""
    typed = [part for part in command if part != "--tty"]
    line = f"pwd; hostname; id -u; printf '{word}' > model/seen\n"
    done = subprocess.run(typed, input=line, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == f"/opt/ml\nalgo-1\n{users.unused_id()}\n"
    [seen] = world.data.glob("clusters/*/algo-1/ml/model/seen")
    assert seen.read_text() == word
    seen.unlink()


def message(job: Job) -> str:
    return job.failure_message or job.failure_reason


def test_containers_that_are_killed_paused_or_out_of_memory_end_their_jobs_with_reason_and_cure(
    containers: Containers,
) -> None:
    """For paused ones, a new controller reports that at once; one that was connected reports it after a silence."""
    gate = containers.gate()
    killed, stopped, resumed = (containers.submit(gate=gate, keep_alive=600) for _ in range(3))
    for job in (killed, stopped, resumed):
        job.until_it_says("begun")
    _is_killed(containers, killed)
    _is_out_of_memory(containers)

    containers.ask("pause", containers.container(stopped), containers.container(resumed))
    containers.open(resumed, gate)
    kill(containers.controller())
    for job in (stopped, resumed):
        word = f"docker unpause {containers.container(job)}."
        eventually_blocking(lambda job=job, word=word: word in said(job), "it says so", within=PATIENCE)
        why = r"Host algo-1 (does not answer|has not answered for .*): its container is paused\. "
        assert re.match(rf"Its hosts are not reachable since \d\d:\d\d: {why}", said(job))
        assert job.job().state is SecondaryStatus.TRAINING
    containers.client.stop(stopped.id)
    containers.ask("unpause", containers.container(resumed))
    assert (resumed.wait().state, resumed.log()) == (COMPLETED, "begun\ndone\n")
    ended = stopped.wait()
    assert (ended.state, stopped.log()) == (STOPPED, "begun\n")
    containers.client.release(resumed.job().cluster)
    containers.nothing_is_left()


def test_an_agent_that_a_signal_has_stopped_in_its_container_is_named_with_what_continues_it(
    containers: Containers,
) -> None:
    gate = containers.gate()
    job = containers.submit(gate=gate)
    job.until_it_says("begun")
    agent = _agent_of(containers, job)
    with frozen(agent):
        containers.open(job, gate)
        sentence = f"its agent, process {agent}, is stopped (SIGSTOP). `kill -CONT {agent}` continues it."
        eventually_blocking(lambda: sentence in said(job), "it says so", within=PATIENCE)
    assert (job.wait().state, job.log()) == (COMPLETED, "begun\ndone\n")
    containers.nothing_is_left()


def _agent_of(world: Containers, job: Ran) -> int:
    """Return the process of an agent, which is the first one of its container or the child of that one."""
    first = int(world.ask("inspect", "--format", "{{.State.Pid}}", world.container(job)))
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    serves = [int(pid) for pid in children if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    return (*serves, first)[0]


def test_a_container_that_is_removed_from_outside_is_called_that_and_a_retry_runs_the_job_again(
    containers: Containers,
) -> None:
    gate = containers.gate()
    lost, repeated = (containers.submit(gate=gate, retries=retries) for retries in (0, 1))
    for job in (lost, repeated):
        job.until_it_says("begun")
        containers.ask("rm", "--force", containers.container(job))
    reason = (
        "InternalServerError: Host algo-1 was lost while the job ran: its container was removed from outside, as by "
        "docker rm --force. Run the job again, or set --retries."
    )
    ended = lost.wait()
    assert (ended.state, ended.failure_reason) == (FAILED, reason)
    again = repeated.until(lambda job: job.attempt == 2 and "first_line" in job.timings, "it runs again")
    assert [attempt.reason for attempt in again.attempts] == [reason]
    containers.open(repeated, gate)
    assert repeated.wait().state is COMPLETED
    containers.nothing_is_left()


def _is_killed(world: Containers, job: Ran) -> None:
    cluster = job.job().cluster
    world.ask("kill", world.container(job))
    ended = job.wait()
    assert ended.state is FAILED
    assert ended.failure_reason == (
        "InternalServerError: Host algo-1 was lost while the job ran: "
        "its container was ended from outside, by docker kill, with its daemon, or by a process in it. "
        "Run the job again, or set --retries."
    )
    assert job.log() == "begun\n", "what it said is kept"
    assert ended.warm_pool is not None
    assert ended.warm_pool.status.value == "Terminated"
    assert cluster not in {pool.id for pool in world.pools()}


def _is_out_of_memory(world: Containers) -> None:
    taken = "open('/opt/ml/output/data/kept', 'w').write('x')\nx = b'x' * (1 << 30)"
    job = world.submit(taken, keep_alive=600)
    ended = job.wait()
    assert (ended.state, job.log()) == (FAILED, "begun\n")
    assert message(ended).startswith("AlgorithmError: OutOfMemory: "), message(ended)
    assert "256.0 MiB" in message(ended)
    assert [artifact.name for artifact in ended.artifacts] == ["output.tar.gz"], "what it wrote comes home"
    again = world.submit(keep_alive=600)
    assert again.wait().state is COMPLETED
    assert again.job().cluster == ended.cluster, "its host has no part in it, and is used again"
    assert again.why().startswith("Warm: ")
    world.client.release(ended.cluster)


def test_a_full_disk_of_opt_ml_is_said_by_the_job_and_the_next_one_has_room(small: Containers) -> None:
    full = small.submit(FILL, keep_alive=600)
    ended = full.wait()
    assert (ended.state, full.log().startswith("begun\n")) == (FAILED, True)
    told = message(ended)
    assert told.startswith("AlgorithmError: OSError: [Errno 28] No space left on device. The disk of /opt/ml/model, ")
    assert told.endswith(" is full: 0 B of 24.0 MiB are free.")
    again = small.submit(keep_alive=600)
    assert again.wait().state is COMPLETED, again.job().failure_reason
    assert again.job().cluster == ended.cluster
    _no_room_for_a_host(small)
    small.client.release(ended.cluster)
    small.nothing_is_left()


def _no_room_for_a_host(world: Containers) -> None:
    """Without any room the launch fails; with a little, the host itself starts, and must be able to report that."""
    disk, before = Disk(world.data / "clusters"), world.alive()
    eventually_blocking(lambda: shutil.disk_usage(disk.path).free > 20 << 20, "what the jobs left is deleted")
    for engine, left in product(("docker", "local"), (0, A_LITTLE)):
        disk.fill(but=left)
        other = world.submit(instance_groups=TWO, engine=engine)
        waits = other.until(lambda job: job.why is not None and "data_dir: " in job.why.sentence, "it waits for room")
        assert waits.why is not None
        assert "Free some space on its disk" in waits.why.sentence, (engine, left)
        world.client.stop(other.id)
        assert (other.wait().state, other.log()) == (STOPPED, ""), (engine, left)
        assert world.alive() == before
        disk.make_room()
    assert world.run(instance_groups=TWO).job().state is COMPLETED
