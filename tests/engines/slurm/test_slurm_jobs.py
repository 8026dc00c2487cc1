"""Jobs on the nodes of a cluster, from a login node and from a laptop: a pool is one job of Slurm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from slurm_controller import SlurmControllerWorld

WHERE = "import json, os, socket\nprint(json.dumps([socket.gethostname(), os.getuid()]))"
GROUPS = """
import json, os
with open("/opt/ml/input/config/resourceconfig.json") as file: config = json.load(file)
groups = {group["instance_group_name"]: group["hosts"] for group in config["instance_groups"]}
print(json.dumps([config["current_host"], config["current_group_name"], groups]))
"""
HOSTS = "import json, os\nprint(json.dumps([os.environ['SM_CURRENT_HOST'], json.loads(os.environ['SM_HOSTS'])]))"


def test_a_job_runs_on_a_node_and_its_warm_pool_takes_the_next_one(controller_of_login: SlurmControllerWorld) -> None:
    first = controller_of_login.run(WHERE, keep_alive=600)
    (where,) = [line for line in first.log().splitlines() if line.startswith("[")]
    name, uid = json.loads(where)
    assert uid == controller_of_login.slurm.login.uid
    job = controller_of_login.job_id()
    second = controller_of_login.run(WHERE, keep_alive=600)
    assert second.why().startswith("Warm")
    assert json.dumps([name, uid]) in second.log()
    assert controller_of_login.job_id() == job


def test_the_time_limit_is_run_time_and_keep_alive_and_the_pool_says_when_it_ends(
    shared_controller: SlurmControllerWorld,
) -> None:
    shared_controller.run(keep_alive=600, max_run=1_200)
    shown = shared_controller.slurm.run(f"scontrol --oneliner show job {shared_controller.job_id()}")
    assert parsers.parse_duration(parsers.parse_record(shown)["TimeLimit"]) == 1_200 + 600 + 180
    (pool,) = shared_controller.pools()
    assert pool.allocation_ends_at is not None
    assert 1_800 < pool.allocation_ends_at - pool.created_at < 2_100


def test_three_hosts_are_three_nodes(shared_controller: SlurmControllerWorld) -> None:
    job = shared_controller.run(HOSTS, instance_groups=(InstanceGroup(instance_count=3),), keep_alive=600)
    hosts = ["algo-1", "algo-2", "algo-3"]
    logs = [shared_controller.client.log(job.id, host, 0).data.decode() for host in hosts]
    assert [line for log in logs for line in log.splitlines() if line.startswith("[")] == [
        json.dumps([host, hosts]) for host in hosts
    ]
    (pool,) = shared_controller.pools()
    assert sorted(pool.machines) == ["box-one", "box-three", "box-two"]


def test_groups_are_components_of_one_job(shared_controller: SlurmControllerWorld) -> None:
    groups = (InstanceGroup(name="first"), InstanceGroup(name="second", instance_count=2))
    job = shared_controller.run(GROUPS, instance_groups=groups, keep_alive=600)
    logs = [shared_controller.client.log(job.id, f"algo-{number}", 0).data.decode() for number in (1, 2, 3)]
    names = {"first": ["algo-1"], "second": ["algo-2", "algo-3"]}
    assert [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("[")] == [
        [host, group, names] for group, hosts in names.items() for host in hosts
    ]
    ids = shared_controller.slurm.run("squeue --noheader --format=%i").split()
    assert sorted(word.partition("+")[2] for word in ids) == ["0", "1"]


def test_a_job_that_is_stopped_leaves_no_job_of_slurm(shared_controller: SlurmControllerWorld) -> None:
    job = shared_controller.submit(gate=shared_controller.gate())
    job.until_it_says("begun")
    shared_controller.client.stop(job.id)
    assert job.wait().state.value == "Stopped"
