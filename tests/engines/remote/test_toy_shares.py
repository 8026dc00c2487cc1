"""Hosts of the remote machine have its size, its GPUs, its types and its Python, and nothing of the controller's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import RefusedError, ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RemoteWorld

SHARE = """
names = ("SM_NUM_CPUS", "SM_NUM_GPUS", "CUDA_VISIBLE_DEVICES")
print("share", *(os.environ.get(name) for name in names), flush=True)
"""
TYPES = [{"name": "lab.small", "vcpus": 3, "memory_gib": 2.0}, {"name": "ml.m5.large", "vcpus": 2, "memory_gib": 8.0}]
WORDS = re.compile(r"^share (.*)$", re.MULTILINE)


def on(kind: str, hosts: int = 1) -> dict[str, Any]:
    return {"instance_groups": (InstanceGroup(instance_type=kind, instance_count=hosts),)}


def share(log: str) -> list[str]:
    found = WORDS.search(log)
    assert found, log
    return found[1].split()


def host_json(remote: RemoteWorld, cluster: str, host: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((remote.machine / "clusters" / cluster / host / "host.json").read_text())
    return found


def test_a_job_sees_the_eight_cpus_and_the_gpu_of_its_type(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ControllerApp.cpus = 2\nc.ControllerApp.gpus = 0\nc.ToyEngine.machine_gpus = ['0', '1']")
    gate = remote.gate()
    first = remote.submit(SHARE, gate=gate, keep_alive=0, **on("ml.p3.2xlarge"))
    second = remote.submit(SHARE, gate=gate, keep_alive=0, **on("ml.p3.2xlarge"))
    for job in (first, second):
        job.until_it_began()
    gate.touch()
    for job in (first, second):
        assert job.wait().state.value == "Completed", job.job().failure_reason
    seen = [share(job.log()) for job in (first, second)]
    assert sorted(seen) == [["8", "1", "0"], ["8", "1", "1"]], "no GPU is two hosts'"
    after = remote.run(SHARE, **on("ml.p3.2xlarge"))
    assert share(after.log())[:2] == ["8", "1"], "what was released is free again"


def test_the_machine_brings_types_and_what_has_no_price_costs_nothing_known(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure(f"c.ToyEngine.machine_types = {TYPES}")
    job = remote.run(SHARE, **on("lab.small"))
    assert share(job.log())[0] == "3"
    priced = remote.run(**on("ml.m5.large"))
    assert remote.client.job_bill(job.job().id).bill.cost is None
    assert remote.client.job_bill(priced.job().id).bill.cost is None, "Amazon's price is not this machine's"
    assert [kind.name for kind in remote.client.instance_types().engines["toy"]] == ["lab.small", "ml.m5.large"]
    with pytest.raises(ValidationError, match=r"'lab.smal' is not an instance type.*Did you mean lab.small"):
        remote.submit(**on("lab.smal"))
    told = remote.client.doctor()
    assert told["capacity"]["hosts"][0] == told["capacity"]["cpus"][0] == 0, "the pools are on the machine"
    assert told["engines"]["toy"]["instance_types"] == ["lab.small", "ml.m5.large"]


def test_hosts_of_one_machine_have_the_loopback_and_no_interpreter_of_the_controller(
    shared_remote: RemoteWorld,
) -> None:
    cluster = shared_remote.run(**on("local", hosts=2)).job().cluster
    first, second = (host_json(shared_remote, cluster, host) for host in ("algo-1", "algo-2"))
    assert first["addresses"] == second["addresses"]
    assert len(set(first["addresses"].values())) == 2
    assert all(address.startswith("127.") for address in first["addresses"].values())
    assert first["courier"] == ""


def test_two_kernels_with_different_pythons_share_a_pool_of_the_machine(shared_remote: RemoteWorld) -> None:
    first = shared_remote.run(python="/only/here/bin/python", python_version="3.11")
    second = shared_remote.run(python="/another/here/bin/python", python_version="3.11")
    assert second.job().why is not None
    assert second.job().why.start == "warm", second.why()
    assert second.job().cluster == first.job().cluster


def test_a_word_for_a_python_goes_to_the_machine_unread(shared_remote: RemoteWorld, tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text("print('hello')\n")
    words = [sys.executable, "-m", "jupyter_smx.cli", "run", script, "--engine", "toy", "--python", "conda:nowhere"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "'conda:nowhere' is not an interpreter of the machine" in done.stderr
    with pytest.raises(RefusedError):
        shared_remote.submit(python="torch", python_named=True)


def test_functions_travel_to_a_python_of_the_machine_without_cloudpickle(shared_remote: RemoteWorld) -> None:
    bare = shared_remote.machine / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    python = str(bare / "bin" / "python")
    lacks = subprocess.run([python, "-c", "import cloudpickle"], capture_output=True, check=False)
    assert lacks.returncode, "this test needs a Python without it"
    sent = payload.pack({"twice": lambda number: number + number}, shared_remote.folder / "payloads")
    job = shared_remote.run(
        "print('it is', twice(21))", python=python, python_named=True, send=sent, receive=("twice",)
    )
    assert "it is 42" in job.log()
    assert job.job().received
