"""TensorFlow's two strategies, row by row: which hosts get which ``TF_CONFIG``, with which ports, and which none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_smx.agent.contract import distribution, failure_command, scriptmode, tfconfig
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.model.spec import distribution as model

SERVERS = {"sagemaker_parameter_server_enabled": "true"}
MIRRORED = {"sagemaker_multi_worker_mirrored_strategy_enabled": "true"}
HOSTS = ["algo-1", "algo-2", "algo-3"]
GROUPS = [
    {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]},
    {"instance_group_name": "dnn", "instance_type": "ml.p3.2xlarge", "hosts": ["algo-3", "algo-1"]},
]
WHOLE = [{"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": HOSTS}]
OF_DNN = {"sagemaker_distribution_instance_groups": '["dnn"]'}


def on(host: str, group: str = "homogeneousCluster", **fields: Any) -> HostInfo:
    made: dict[str, Any] = {"hosts": HOSTS, "groups": WHOLE, "cpus": 4, "gpus": 2, "instance_type": "local"}
    return HostInfo(**made | {"host": host, "group": group} | fields)


def of_dnn(host: str, group: str = "dnn") -> HostInfo:
    return on(host, group, groups=GROUPS)


def wish(hyperparameters: dict[str, str], **fields: Any) -> dict[str, Any]:
    return scriptmode.complete({"source": "pass", "hyperparameters": hyperparameters, **fields})


def told(spec: dict[str, Any], place: HostInfo) -> Any:
    text = scriptmode.variables(spec, place).get("TF_CONFIG")
    return None if text is None else json.loads(text)


def config(cluster: dict[str, list[str]], kind: str, index: int) -> dict[str, Any]:
    return {"cluster": cluster, "environment": "cloud", "task": {"index": index, "type": kind}}


THREE = {
    "master": ["algo-1:2222"],
    "ps": ["algo-1:2223", "algo-2:2223", "algo-3:2223"],
    "worker": ["algo-2:2222", "algo-3:2222"],
}
ALL = {"worker": ["algo-1:8890", "algo-2:8890", "algo-3:8890"]}
OF_THE_GROUP = {"master": ["algo-3:2222"], "ps": ["algo-3:2223", "algo-1:2223"], "worker": ["algo-1:2222"]}
ONE = {"hosts": ["algo-1"], "groups": [{**WHOLE[0], "hosts": ["algo-1"]}]}


@pytest.mark.parametrize(
    ("flags", "place", "found"),
    [
        (SERVERS, on("algo-1"), config(THREE, "master", 0)),
        (SERVERS, on("algo-2"), config(THREE, "worker", 0)),
        (SERVERS, on("algo-3"), config(THREE, "worker", 1)),
        (MIRRORED, on("algo-1"), config(ALL, "worker", 0)),
        (MIRRORED, on("algo-3"), config(ALL, "worker", 2)),
        (SERVERS | OF_DNN, of_dnn("algo-3"), config(OF_THE_GROUP, "master", 0)),
        (SERVERS | OF_DNN, of_dnn("algo-1"), config(OF_THE_GROUP, "worker", 0)),
        (MIRRORED | OF_DNN, of_dnn("algo-1"), config({"worker": ["algo-3:8890", "algo-1:8890"]}, "worker", 1)),
        (SERVERS | OF_DNN, of_dnn("algo-2", "data"), None),
        (MIRRORED | OF_DNN, of_dnn("algo-2", "data"), None),
        (SERVERS, on("algo-1", **ONE), None),
        (MIRRORED, on("algo-1", **ONE), config({"worker": ["algo-1:8890"]}, "worker", 0)),
        (SERVERS | MIRRORED, on("algo-2"), config(THREE, "worker", 0)),
        (SERVERS | MIRRORED, on("algo-1", **ONE), config({"worker": ["algo-1:8890"]}, "worker", 0)),
        (SERVERS | {"sagemaker_mpi_enabled": "true"}, on("algo-2"), config(THREE, "worker", 0)),
        ({"sagemaker_parameter_server_enabled": "True"}, on("algo-1"), config(THREE, "master", 0)),
        ({"sagemaker_parameter_server_enabled": "false"}, on("algo-1"), None),
        ({}, on("algo-1"), None),
    ],
)
def test_each_host_is_told_its_task(flags: dict[str, str], place: HostInfo, found: Any) -> None:
    assert told(wish(flags), place) == found


def test_a_group_of_one_host_has_a_master_and_no_server() -> None:
    spec = wish(SERVERS | {"sagemaker_distribution_instance_groups": '["data"]'})
    assert told(spec, of_dnn("algo-2", "data")) == config({"master": ["algo-2:2222"]}, "master", 0)


@pytest.mark.parametrize("fields", [{"kind": "process"}, {"contract": "v3"}])
def test_neither_a_processing_job_nor_sdk_3_has_them(fields: dict[str, Any]) -> None:
    assert told(wish(SERVERS | MIRRORED, **fields), on("algo-1")) is None


def test_hosts_that_share_a_machine_have_ports_of_their_own_which_all_of_them_know() -> None:
    fields = {"base": "/data/ml", "addresses": {"algo-1": "127.7.7.1", "algo-2": "127.7.7.2"}, "port": 12_000}
    hosts = {"hosts": ["algo-1", "algo-2"], "groups": [{**WHOLE[0], "hosts": ["algo-1", "algo-2"]}]}
    first, second = (told(wish(SERVERS), on(host, **fields, **hosts)) for host in hosts["hosts"])
    mirrored = told(wish(MIRRORED), on("algo-2", **fields, **hosts))
    assert first["cluster"] == second["cluster"]
    everything = [one for row in (*first["cluster"].values(), *mirrored["cluster"].values()) for one in row]
    assert sorted(everything) == [
        *(f"127.7.7.1:{port}" for port in (12_001, 12_002, 12_003)),
        *(f"127.7.7.2:{port}" for port in (12_004, 12_005, 12_006)),
    ], "servers of TensorFlow's listen on all addresses"


def test_the_script_runs_once_on_each_host_as_it_does_without() -> None:
    plain = failure_command.command_prefix(wish({}), on("algo-2"))
    for flags in (SERVERS, MIRRORED):
        assert failure_command.command_prefix(wish(flags), on("algo-2")) == plain
        assert distribution.launcher_distribution(wish(flags), on("algo-2")) is None
        found = scriptmode.variables(wish(flags), on("algo-2"))
        assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == ["homogeneousCluster"]
        assert "OMP_NUM_THREADS" not in found


def test_a_variable_of_the_wish_wins() -> None:
    assert told(wish(MIRRORED, environment={"TF_CONFIG": "{}"}), on("algo-1")) == {}


def test_the_server_of_a_host_is_where_its_peers_look_for_it() -> None:
    for place in (on("algo-2"), on("algo-2", port=12_000)):
        (address,) = [one for one in told(wish(SERVERS), place)["cluster"]["ps"] if one.startswith("algo-2:")]
        assert address == f"algo-2:{tfconfig.server_port(place)}"
        (leader,) = told(wish(SERVERS), place)["cluster"]["master"]
        assert leader == f"algo-1:{tfconfig.leader_port(HOSTS, place)}"


def test_strategies_of_tensorflow_are_the_same_on_both_sides_of_the_wire() -> None:
    once = {name for name, runner in model.RUNNERS.items() if model.Distribution(runner=runner).runs_once()}
    assert once == set(tfconfig.STRATEGIES)
