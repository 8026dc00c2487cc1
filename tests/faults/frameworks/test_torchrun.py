"""``--distribution torchrun`` with real PyTorch on real hosts: ranks that compute together, fail, and are stopped."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pytorch import interpreter

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from world import Ran, World

pytestmark = [
    pytest.mark.heavy("torch"),
    pytest.mark.timeout(400),  # the first of them may have to install PyTorch
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ranks are forked on Linux only"),
]

TWO = (InstanceGroup(instance_count=2),)
GROUPS = (InstanceGroup(name="data"), InstanceGroup(name="dnn", instance_count=2))

REDUCE = """
import json, os
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.tensor([10.0 ** rank])
dist.all_reduce(total)
names = "LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR NCCL_SOCKET_IFNAME NCCL_PROTO OMP_NUM_THREADS"
told = {name: os.environ[name] for name in names.split()}
print(json.dumps(["rank", rank, total.item(), told, torch.get_num_threads()]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""

PLAIN = """
import json, os
import torch, torch.distributed as dist
hosts = json.loads(os.environ["SM_HOSTS"])
dist.init_process_group("gloo", rank=hosts.index(os.environ["SM_CURRENT_HOST"]), world_size=len(hosts))
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
print(json.dumps(["rank", dist.get_rank(), total.item()]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter()


def torchrun(processes: int | None = 2, *groups: str) -> Distribution:
    return Distribution(runner="torchrun", processes=processes, groups=groups)


def host_log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def said(ran: Ran, host: str) -> list[Any]:
    # What PyTorch itself says may begin with a bracket, too.
    return sorted(json.loads(line)[1:] for line in host_log(ran, host).splitlines() if line.startswith('["rank"'))


def distributed(world: World, body: str, python: str, **fields: Any) -> Ran:
    wish = {
        "python": python,
        "python_version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "instance_groups": TWO,
        "keep_alive": 0,
    }
    return world.submit(body, **wish | {"distribution": torchrun()} | fields)


def test_two_hosts_with_two_ranks_each_reduce_together(shared: World, python: str) -> None:
    ran = distributed(shared, REDUCE, python)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, host_log(ran, "algo-1"))
    for number, host in enumerate(("algo-1", "algo-2")):
        rows = said(ran, host)
        assert [row[:2] for row in rows] == [[2 * number, 1111.0], [2 * number + 1, 1111.0]]
        for local, (_, _, variables, threads) in enumerate(rows):
            assert threads == 1
            assert variables["MASTER_ADDR"] in ("algo-1", "127.0.0.1") or variables["MASTER_ADDR"].startswith("127.")
            assert variables | {"MASTER_ADDR": ""} == {
                "LOCAL_RANK": str(local),
                "GROUP_RANK": str(number),
                "WORLD_SIZE": "4",
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "",
                "NCCL_SOCKET_IFNAME": "lo",
                "NCCL_PROTO": "simple",
                "OMP_NUM_THREADS": "1",
            }


def test_a_script_that_starts_its_process_group_itself_needs_no_launcher(shared: World, python: str) -> None:
    ran = distributed(shared, PLAIN, python, distribution=None)
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, host_log(ran, "algo-1"))
    assert [said(ran, host) for host in ("algo-1", "algo-2")] == [[[0, 11.0]], [[1, 11.0]]]


def test_ranks_of_sdk_3s_driver_get_its_words_and_variables(shared: World, python: str) -> None:
    tell = """
    import json, os, sys
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.tensor([10.0 ** dist.get_rank()])
    dist.all_reduce(total)
    hidden = [name for name in os.environ if name.startswith("SM_HP_")]
    told = [os.environ["SM_DISTRIBUTED_CONFIG"], os.environ["NCCL_PROTO"], hidden, sys.argv[1:], os.getcwd()[-16:]]
    print(json.dumps(["rank", dist.get_rank(), total.item(), *told]), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    """
    ran = distributed(shared, tell, python, contract="v3", hyperparameters={"on": "true"})
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, host_log(ran, "algo-1"))
    config = '{"process_count_per_node": 2, "smp": null}'
    seen = [1111.0, config, "simple", ["SM_HP_ON"], ["--on", "true"], "/input/data/code"]
    assert [row for host in ("algo-1", "algo-2") for row in said(ran, host)] == [[rank, *seen] for rank in range(4)]


def test_lines_of_ranks_are_whole_in_the_log_that_they_share(
    world: World, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # pieces of lines are written at once then
    body = "import os\nfor number in range(300):\n    print('piece', number, 'of', os.environ['RANK'])"
    ran = distributed(world, body, python, instance_groups=(InstanceGroup(),))
    assert ran.wait().state.value == "Completed", ran.log()
    lines = [line for line in ran.log().splitlines() if "piece" in line]
    assert sorted(lines) == sorted(f"piece {number} of {rank}" for number in range(300) for rank in (0, 1))


def test_hosts_of_other_groups_run_the_script_plainly(shared: World, python: str) -> None:
    plain = "if os.environ['SM_CURRENT_INSTANCE_GROUP'] == 'data':\n    print('plain', 'RANK' in os.environ)\nelse:\n"
    body = "import os\n" + plain + "".join(f"    {line}\n" for line in REDUCE.splitlines())
    ran = distributed(shared, body, python, instance_groups=GROUPS, distribution=torchrun(1, "dnn"))
    job = ran.wait()
    assert job.state.value == "Completed", (job.failure_reason, host_log(ran, "algo-2"))
    assert "plain False" in host_log(ran, "algo-1")
    assert [said(ran, host)[0][:2] for host in ("algo-2", "algo-3")] == [[0, 11.0], [1, 11.0]]


def test_one_host_alone_needs_no_leader_and_two_such_jobs_run_at_a_time(shared: World, python: str) -> None:
    one = (InstanceGroup(),)
    jobs = [distributed(shared, REDUCE, python, instance_groups=one) for _ in range(2)]
    for ran in jobs:
        job = ran.wait()
        assert job.state.value == "Completed", (job.failure_reason, ran.log())
        assert [row[:2] for row in said(ran, "algo-1")] == [[0, 11.0], [1, 11.0]]


def test_what_a_rank_raised_fails_the_job_with_its_own_line(shared: World, python: str) -> None:
    ran = distributed(
        shared,
        "import os\nif os.environ['RANK'] == '3':\n    raise KeyError('lost')\nimport signal\nsignal.pause()",
        python,
    )
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "KeyError: 'lost'" in job.failure_reason
    guilty = next(end for end in job.hosts if end.host == "algo-2")
    assert guilty.exception is not None
    assert guilty.exception.type == "KeyError"
    assert "raise KeyError('lost')" in guilty.exception.traceback


def test_a_stop_reaches_the_handlers_of_all_ranks(shared: World, python: str) -> None:
    body = """
    import os, signal
    def told(*_):
        print("told", os.environ["RANK"], flush=True)
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, told)
    print("waits", flush=True)
    signal.pause()
    """
    ran = distributed(shared, body, python)
    both = ("algo-1", "algo-2")
    eventually_blocking(lambda: all(host_log(ran, host).count("waits") == 2 for host in both), "all wait", within=30.0)
    shared.client.stop(ran.id)
    assert ran.wait().state.value == "Stopped"
    told = [line for host in both for line in host_log(ran, host).splitlines() if line.startswith("told")]
    assert set(told) == {f"told {rank}" for rank in range(4)}


def test_a_job_without_pytorch_says_so(shared: World) -> None:
    ran = distributed(shared, "pass", sys.executable, instance_groups=(InstanceGroup(),))
    job = ran.wait()
    assert job.state.value == "Failed"
    assert "torchrun needs PyTorch, which the job's Python does not have" in job.failure_reason
    assert "--python" in job.failure_reason


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"kind": "process"}, "torchrun is for training jobs only"),
        (
            {"contract": "v3", "distribution": torchrun(1, "dnn"), "instance_groups": GROUPS},
            "Remove groups or --contract",
        ),
        ({"distribution": torchrun(0)}, "Each host runs at least one process"),
        (
            {"distribution": torchrun(1, "dn"), "instance_groups": GROUPS},
            r"there is no group dn\..* Did you mean dnn\?",
        ),
        ({"instance_groups": GROUPS}, "exactly one group is distributed"),
        ({"receive": ("x",)}, "none of them has the cell"),
    ],
)
def test_what_cannot_be_distributed_is_refused_with_the_rule(shared: World, fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        distributed(shared, "pass", sys.executable, **fields)
