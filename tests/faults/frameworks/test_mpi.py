"""``--distribution mpi`` with real Open MPI on real hosts: reached through the doors of their jobs, without sshd."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytorch import with_mpi4py

from jupyter_smx.kernel.request import source_dir
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from world import Ran, World

pytestmark = [
    pytest.mark.heavy("mpi"),
    pytest.mark.skipif(
        shutil.which("mpirun") is None or shutil.which("orted") is None,
        reason="Open MPI is not installed: apt-get install openmpi-bin libopenmpi-dev",
    ),
]

TWO = (InstanceGroup(instance_count=2),)
GROUPS = (InstanceGroup(name="data"), InstanceGroup(name="dnn", instance_count=2))

REDUCE = """
import json, os, socket, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(10 ** world.rank)
own = os.stat("/tmp").st_ino
facts = ["rank", world.rank, world.size, total, socket.gethostname(), os.environ["SM_HP_A"], own]
sys.stdout.write(json.dumps(facts) + chr(10))  # at once, since mpirun marks pieces
"""


@pytest.fixture(scope="module")
def shared(far: World) -> World:
    """Hosts as users have them: what Open MPI looks for in ``/tmp`` is not there because the leading host has it."""
    return far


@pytest.fixture(scope="module")
def python() -> str:
    return with_mpi4py()


def host_log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def mpi(processes: int | None = 2, *groups: str) -> Distribution:
    return Distribution(runner="mpi", processes=processes, groups=groups)


def distributed(world: World, body: str, python: str, **fields: Any) -> Ran:
    wish = {"python": python, "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}", "instance_groups": TWO}
    wish |= {"hyperparameters": {"a": "1"}, "keep_alive": 0, "distribution": mpi()}
    return world.submit(body, **wish | fields)


def ranks(log: str) -> list[tuple[str, list[Any]]]:
    """Give the tag and the facts of each rank, in the ranks' order."""
    found = re.findall(r"^\[1,mpirank:(\d+),(algo-\d+)\]<stdout>:?(\[\"rank\".*\])$", log, re.MULTILINE)
    return sorted((host, json.loads(text)[1:]) for rank, host, text in found if json.loads(text)[1] == int(rank))


def test_two_hosts_with_two_ranks_each_reduce_together_and_say_who_they_are(shared: World, python: str) -> None:
    ran = distributed(shared, REDUCE, python)
    job = ran.wait()
    log = host_log(ran, "algo-1")
    assert job.state.value == "Completed", (job.failure_reason, log, host_log(ran, "algo-2"))
    found = ranks(log)
    assert [(host, facts[:3]) for host, facts in found] == [
        ("algo-1", [0, 4, 1111]),
        ("algo-1", [1, 4, 1111]),
        ("algo-2", [2, 4, 1111]),
        ("algo-2", [3, 4, 1111]),
    ]
    assert all(facts[4] == "1" for _, facts in found)
    if os.getuid() == 0:
        assert [facts[3] for _, facts in found] == ["algo-1", "algo-1", "algo-2", "algo-2"], "each runs on its own host"
        if not Path(__file__).is_relative_to("/tmp"):  # noqa: S108 - hosts cannot hide what they need
            assert len({facts[5] for _, facts in found}) == 2, "each host has a /tmp of its own"


def test_hosts_of_other_groups_run_the_script_plainly(shared: World, python: str) -> None:
    plain = "import os\nif 'OMPI_COMM_WORLD_RANK' not in os.environ:\n    print('plain')\n    raise SystemExit(0)\n"
    ran = distributed(shared, plain + REDUCE, python, instance_groups=GROUPS, distribution=mpi(1, "dnn"))
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, host_log(ran, "algo-2"))
    assert "plain" in host_log(ran, "algo-1").split()
    assert [(host, facts[:3]) for host, facts in ranks(host_log(ran, "algo-2"))] == [
        ("algo-2", [0, 2, 11]),
        ("algo-3", [1, 2, 11]),
    ]


BACKEND = """
import zipfile
def build_wheel(folder, *args, **kwargs):
    info, name = "fitting-1.0.dist-info", "fitting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        archive.writestr("parts.py", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: fitting\\nVersion: 1.0\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "parts.py,,\\n")
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def test_a_package_is_run_as_a_module_by_each_rank(shared: World, python: str, tmp_path: Path) -> None:
    train = REDUCE.replace("world.size,", "world.size, __spec__.name, __package__,")
    files = {
        "setup.py": "",
        "pyproject.toml": PROJECT,
        "backend.py": BACKEND,
        "fits/train.py": "import parts\n" + train,
    }
    for name, text in {**files, "fits/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    packed = source_dir.pack(str(tmp_path), shared.data / "payloads", "fits/train.py")
    wish = {"source": train, "source_dir": packed, "entry_point": "fits/train.py"}
    ran = distributed(shared, "", python, **wish, distribution=mpi(1))
    job = ran.wait()
    log = host_log(ran, "algo-1")
    assert job.state.value == "Completed", (job.failure_reason, log, host_log(ran, "algo-2"))
    assert [facts[:5] for _, facts in ranks(log)] == [[rank, 2, "fits.train", "fits", 11] for rank in (0, 1)]


def test_sdk_3s_driver_gives_mpirun_as_many_ranks_as_one_host_has_processes(shared: World, python: str) -> None:
    body = REDUCE.replace("socket.gethostname()", 'os.environ["SM_DISTRIBUTED_CONFIG"], sys.argv[1:]')
    ran = distributed(shared, body, python, contract="v3")
    job = ran.wait()
    log = host_log(ran, "algo-1")
    assert job.state.value == "Completed", (job.failure_reason, log, host_log(ran, "algo-2"))
    found = sorted(json.loads(text)[1:] for text in re.findall(r"^\[1,\d\]<stdout>:?(\[.rank.*\])$", log, re.MULTILINE))
    config = '{"process_count_per_node": 2, "mpi_additional_options": null}'
    assert [facts[:6] for facts in found] == [[rank, 2, 11, config, ["--a", "1"], "1"] for rank in (0, 1)]


def test_a_rank_that_fails_fails_the_job_with_its_exit_code(shared: World, python: str) -> None:
    fail = "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 3:\n    raise SystemExit(9)\nMPI.COMM_WORLD.recv()"
    job = distributed(shared, fail, python).wait()
    assert job.state.value == "Failed"
    assert [(end.host, end.exit_code) for end in job.hosts] == [("algo-1", 9), ("algo-2", 0)]


def test_a_stop_reaches_the_ranks_of_all_hosts_and_nothing_stays(shared: World, python: str) -> None:
    wait = "import signal\nfrom mpi4py import MPI\nMPI.COMM_WORLD.barrier()\nprint('waits', flush=True)\nsignal.pause()"
    ran = distributed(shared, wait, python)
    eventually_blocking(lambda: host_log(ran, "algo-1").count("waits") == 4, "all ranks wait", within=30.0)
    shared.client.stop(ran.id)
    assert ran.wait().state.value == "Stopped"


def test_variables_cannot_be_sent_to_what_is_no_cell(shared: World) -> None:
    with pytest.raises(ValidationError, match="mpirun starts new interpreters"):
        distributed(shared, "pass", sys.executable, send=Payload(path="/p", sha256="a", sizes={}, size=1))
