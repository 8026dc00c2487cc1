"""Sagemaker-training's rules on distributions, row by row: participants, the leader, the arguments of a runner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import configfiles, distribution, scriptmode
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError
from jupyter_smx.agent.launchers import mpi
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from far_side import Agent

TORCH = {"sagemaker_torch_distributed_enabled": "true"}
MPI = {"sagemaker_mpi_enabled": "true"}
GROUPS = [
    {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]},
    {"instance_group_name": "dnn", "instance_type": "ml.p3.2xlarge", "hosts": ["algo-3", "algo-1"]},
]


def on(host: str, group: str = "dnn", **fields: Any) -> HostInfo:
    made: dict[str, Any] = {"hosts": ["algo-1", "algo-2", "algo-3"], "groups": GROUPS, "cpus": 4, "gpus": 0}
    return HostInfo(**made | {"host": host, "group": group, "instance_type": "ml.p3.2xlarge"} | fields)


def wish(hyperparameters: dict[str, str], **fields: Any) -> dict[str, Any]:
    return scriptmode.complete({"source": "pass", "hyperparameters": hyperparameters, **fields})


def of_dnn(flags: dict[str, str], **more: Any) -> dict[str, str]:
    return {**flags, "sagemaker_distribution_instance_groups": '["dnn"]', **{k: json.dumps(v) for k, v in more.items()}}


def facts(spec: dict[str, Any], place: HostInfo) -> dict[str, Any]:
    told = json.loads(scriptmode.variables(spec, place)["SM_TRAINING_ENV"])
    names = ("distribution_hosts", "distribution_instance_groups", "is_master", "master_hostname")
    return {name: told[name] for name in names}


def test_a_job_without_a_flag_runs_plainly_and_its_first_host_leads() -> None:
    assert distribution.host_distribution(wish({}), on("algo-1")) is None
    assert facts(wish({}), on("algo-3")) == {
        "distribution_hosts": [],
        "distribution_instance_groups": [],
        "is_master": False,
        "master_hostname": "algo-1",
    }


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (["10.0.0.5", "10.0.0.6"], "10.0.0.4/30"),
        (["10.0.0.5"], "10.0.0.5/32"),
        (["10.77.0.1", "10.77.3.250", "10.77.0.2"], "10.77.0.0/22"),
        (["10.1.0.1", "10.200.0.1"], "10.0.0.0/8"),
        (["10.0.0.5", "192.168.0.5"], ""),
        (["fd00::1", "fd00::2"], ""),
    ],
)
def test_the_network_of_several_machines_is_the_smallest_with_all_their_addresses(
    addresses: list[str], network: str
) -> None:
    assert distribution.common_network(addresses) == network


@pytest.mark.parametrize(
    ("base", "addresses", "hosts", "network"),
    [
        ("/opt/ml", {"algo-1": "10.0.0.5", "algo-2": "10.0.0.6"}, "algo-1:2,algo-2:2", "10.0.0.4/30"),
        ("/home/u/ml", {"algo-1": "10.0.0.5", "algo-2": "10.0.0.6"}, "10.0.0.5:2,10.0.0.6:2", "10.0.0.4/30"),
        ("/opt/ml", {"algo-1": "10.0.0.5", "algo-2": "192.168.0.6"}, "algo-1:2,algo-2:2", "eth7"),
        ("/home/u/ml", {"algo-1": "127.1.2.1", "algo-2": "127.1.2.2"}, "algo-1:2,algo-2:2", "eth7"),
    ],
)
def test_mpirun_gets_names_that_it_can_look_up_and_a_network_that_each_machine_has(
    base: str, addresses: dict[str, str], hosts: str, network: str
) -> None:
    place = on("algo-1", base=base, hosts=["algo-1", "algo-2"], groups=[], addresses=addresses, interface="eth7")
    found = distribution.Distribution("mpi", ["dnn"], ["algo-1", "algo-2"], 2)
    for driven in (False, True):
        words = distribution.mpirun_arguments(found._replace(driven=driven, total=4), place, [])
        assert words[words.index("--host") + 1] == hosts
        settings = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word == "-mca"}
        assert settings["btl_tcp_if_include"] == settings["oob_tcp_if_include"] == network


@pytest.mark.parametrize("flags", [TORCH, MPI])
def test_only_hosts_of_the_chosen_group_take_part(flags: dict[str, str]) -> None:
    spec = wish(of_dnn(flags))
    assert distribution.host_distribution(spec, on("algo-2", "data")) is None
    for host in ("algo-1", "algo-3"):
        found = distribution.host_distribution(spec, on(host))
        assert found is not None
        assert found.hosts == ["algo-3", "algo-1"], "in the order of the group's list, which is not sorted"


def test_the_first_host_of_the_first_group_in_list_order_leads_also_for_those_who_do_not_take_part() -> None:
    for host, group in (("algo-1", "dnn"), ("algo-2", "data"), ("algo-3", "dnn")):
        assert facts(wish(of_dnn(TORCH)), on(host, group)) == {
            "distribution_hosts": ["algo-3", "algo-1"],
            "distribution_instance_groups": ["dnn"],
            "is_master": host == "algo-3",
            "master_hostname": "algo-3",
        }


def test_without_a_choice_it_is_the_group_of_the_host_and_without_groups_all_hosts() -> None:
    assert facts(wish(TORCH), on("algo-2", "data"))["distribution_instance_groups"] == ["data"]
    assert facts(wish(TORCH), on("algo-2", "data"))["distribution_hosts"] == ["algo-2"]
    alone = distribution.host_distribution(wish(TORCH), on("algo-1", "homogeneousCluster", groups=[]))
    assert alone is not None
    assert alone.hosts == ["algo-1", "algo-2", "algo-3"]


@pytest.mark.parametrize(
    ("more", "gpus", "given", "processes"),
    [({"sagemaker_mpi_num_of_processes_per_host": 3}, 2, [], 3), ({}, 2, [], 2), ({}, 2, [0], 1), ({}, 0, [], 1)],
)
def test_processes_are_the_option_else_the_gpus_else_one(
    more: dict[str, int], gpus: int, given: list[int], processes: int
) -> None:
    found = distribution.host_distribution(wish(of_dnn(TORCH, **more), gpus=given), on("algo-1", gpus=gpus))
    assert found is not None
    assert found.processes == processes


@pytest.mark.parametrize("text", ["two", "0", "-1", "null-ish", "[2]", '{"a": 1}', "1e999", "NaN"])
def test_processes_that_are_no_number_of_processes_are_the_wishs_fault(text: str) -> None:
    wrong = wish(TORCH | {"sagemaker_mpi_num_of_processes_per_host": text})
    with pytest.raises(HyperparameterError, match=r"_per_host is .*; it must be a number of processes, 1 or more\."):
        scriptmode.variables(wrong, on("algo-1"))


@pytest.mark.parametrize("text", ["5", "dnn", "null", "[5]", '{"dnn": 1}'])
def test_groups_that_are_no_list_of_names_are_the_wishs_fault(text: str) -> None:
    wrong = wish(TORCH | {"sagemaker_distribution_instance_groups": text})
    with pytest.raises(
        HyperparameterError,
        match=r'_instance_groups is .*; it must be a list of instance group names, e\.g\. \["dnn"\]\.',
    ):
        scriptmode.variables(wrong, on("algo-1"))


def test_a_host_tells_a_wrong_hyperparameter_before_the_code_begins(agent: Agent) -> None:
    wrong = TORCH | {"sagemaker_mpi_num_of_processes_per_host": "two"}
    record = agent.run("print('ran')", hyperparameters=wrong)
    assert record["cause"] == "refused"
    assert record["failure"] == (
        "hyperparameters: sagemaker_mpi_num_of_processes_per_host is 'two'; "
        "it must be a number of processes, 1 or more."
    )
    assert "ran" not in record["text"]


def test_the_words_of_torchrun() -> None:
    spec = wish(of_dnn(TORCH, sagemaker_mpi_num_of_processes_per_host=2))
    told = {
        host: distribution.torchrun_arguments(distribution.host_distribution(spec, on(host)), on(host))
        for host in ("algo-1", "algo-3")
    }  # type: ignore[arg-type]
    begin = [
        "--nnodes",
        "2",
        "--nproc_per_node",
        "2",
        "--master_addr",
        "algo-3",
        "--master_port",
        "7777",
        "--node_rank",
    ]
    assert told == {"algo-3": [*begin, "0"], "algo-1": [*begin, "1"]}
    data = wish({**TORCH, "sagemaker_distribution_instance_groups": '["data"]'})
    place = on("algo-2", "data")
    assert distribution.torchrun_arguments(distribution.host_distribution(data, place), place) == [
        "--nnodes",
        "1",
        "--nproc_per_node",
        "1",
    ]  # type: ignore[arg-type]


def test_the_words_of_mpirun() -> None:
    spec = wish(of_dnn(MPI, sagemaker_mpi_num_of_processes_per_host=2, sagemaker_mpi_custom_mpi_options="-v 1"))
    place = on("algo-3", interface="lo")
    found = distribution.host_distribution(spec, place)
    assert found is not None
    said = distribution.mpirun_arguments(found, place, ["PATH", "SM_HPS", "SM_HP_A", "HOME"])
    mca = [f"{said[number + 1]}={said[number + 2]}" for number, word in enumerate(said) if word == "-mca"]
    handed = [said[number + 1] for number, word in enumerate(said) if word == "-x"]
    begin = ["--host", "algo-3:2,algo-1:2", "-np", "4", "--allow-run-as-root", "--display-map", "--tag-output"]
    assert said[: len(begin)] == begin
    assert mca == [
        "btl_tcp_if_include=lo",
        "oob_tcp_if_include=lo",
        "plm_rsh_no_tree_spawn=1",
        "pml=ob1",
        "btl=^openib",
        "orte_abort_on_non_zero_status=1",
        "btl_vader_single_copy_mechanism=none",
    ]
    assert " ".join(said).count("-bind-to none -map-by slot") == 1
    assert handed == ["NCCL_MIN_NRINGS=4", "NCCL_SOCKET_IFNAME=lo", "NCCL_DEBUG=INFO", "PATH", "SM_HPS", "SM_HP_A"]
    assert said[said.index("-v") : said.index("-v") + 2] == ["-v", "1"]
    fewer = distribution.host_distribution(wish(of_dnn(MPI, sagemaker_mpi_num_processes=3)), place)
    assert fewer is not None
    assert distribution.mpirun_arguments(fewer, place, [])[:4] == ["--host", "algo-3:1,algo-1:1", "-np", "3"]


def test_lines_of_mpirun_say_the_rank_and_its_host() -> None:
    found = distribution.Distribution("mpi", ["dnn"], ["algo-3", "algo-1"], 2)
    assert mpi.tag_line(b"[1,0]<stdout>:a\n", found) == b"[1,mpirank:0,algo-3]<stdout>:a\n"
    assert mpi.tag_line(b"[1,3]<stderr>:a[1,2]<stdout>:b\n", found) == (
        b"[1,mpirank:3,algo-1]<stderr>:a[1,mpirank:2,algo-1]<stdout>:b\n"
    )
    assert mpi.tag_line(b" JOB MAP \n", found) == b" JOB MAP \n"


def test_where_names_are_not_found_the_leader_is_reached_by_its_address_and_its_own_port() -> None:
    place = on("algo-1", base="/data/host/ml", addresses={"algo-3": "127.7.7.3"}, port=7780)
    words = distribution.torchrun_arguments(distribution.host_distribution(wish(of_dnn(TORCH)), place), place)  # type: ignore[arg-type]
    assert words[4:8] == ["--master_addr", "127.7.7.3", "--master_port", "7780"]


def test_the_variables_of_a_runner_are_there_for_those_who_take_part_and_the_wishes_own_win() -> None:
    spec = wish(of_dnn(TORCH), environment={"NCCL_PROTO": "LL"})
    found = scriptmode.variables(spec, on("algo-1", interface="lo"))
    assert {name: found[name] for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_PROTO")} == {
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_PROTO": "LL",
    }
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("algo-3", "7777")
    assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == ["dnn"]
    assert json.loads(found["SM_FRAMEWORK_PARAMS"]) == {
        "sagemaker_torch_distributed_enabled": True,
        "sagemaker_distribution_instance_groups": ["dnn"],
    }
    assert json.loads(found["SM_TRAINING_ENV"])["distribution_hosts"] == ["algo-3", "algo-1"]
    assert "NCCL_PROTO" not in scriptmode.variables(wish(of_dnn(TORCH)), on("algo-2", "data"))
    assert "NCCL_PROTO" not in scriptmode.variables(wish(of_dnn(MPI)), on("algo-1"))


@pytest.mark.parametrize(
    ("flags", "processes", "wished", "told"),
    [(TORCH, 2, {}, "1"), (TORCH, 2, {"OMP_NUM_THREADS": "3"}, "3"), (TORCH, 1, {}, None), (MPI, 2, {}, None)],
)
def test_each_of_several_ranks_has_one_thread_as_from_torchrun_unless_the_wish_says_more(
    flags: dict[str, str], processes: int, wished: dict[str, str], told: str | None
) -> None:
    spec = wish(of_dnn(flags, sagemaker_mpi_num_of_processes_per_host=processes), environment=wished)
    assert scriptmode.variables(spec, on("algo-1")).get("OMP_NUM_THREADS") == told
    assert scriptmode.variables(spec, on("algo-2", "data")).get("OMP_NUM_THREADS") == wished.get("OMP_NUM_THREADS")


FOUND_BY = ("MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
ALONE = {"hosts": ["algo-1"], "groups": []}


@pytest.mark.parametrize(
    ("fields", "place", "told"),
    [
        ({}, on("algo-3", interface="lo", port=7780), ["algo-1", "7780", "lo", "lo"]),
        ({"hyperparameters": of_dnn(MPI)}, on("algo-1"), ["algo-3", "7777", "eth0", "eth0"]),
        ({"hyperparameters": of_dnn(MPI)}, on("algo-2", "data"), ["algo-3", "7777", "eth0", "eth0"]),
        ({}, on("algo-2", base="/data/ml", addresses={"algo-1": "127.7.7.1"}), ["127.7.7.1", "7777", "eth0", "eth0"]),
        ({"environment": {"MASTER_PORT": "1"}}, on("algo-2"), ["algo-1", "1", "eth0", "eth0"]),
        ({}, on("algo-2", hosts=["algo-3", "algo-2", "algo-10"]), ["algo-10", "7777", "eth0", "eth0"]),
        ({}, on("algo-1", "homogeneousCluster", **ALONE), ["algo-1", "7777", "eth0", "eth0"]),
        ({"contract": "v3"}, on("algo-1"), [None] * 4),
        ({"kind": "process"}, on("algo-1"), [None] * 4),
    ],
)
def test_hosts_of_any_training_job_find_each_other_as_in_sagemakers_image_of_pytorch(
    fields: dict[str, Any], place: HostInfo, told: list[str | None]
) -> None:
    found = scriptmode.variables(wish(**{"hyperparameters": {}, **fields}), place)
    assert [found.get(name) for name in FOUND_BY] == told


@pytest.mark.parametrize(
    ("runner", "processes", "text"),
    [
        ("", 0, "{}"),
        ("torchrun", 0, '{"process_count_per_node": null, "smp": null}'),
        ("mpi", 4, '{"process_count_per_node": 4, "mpi_additional_options": null}'),
    ],
)
def test_sdk_3_tells_a_distribution_in_a_file_and_two_variables(runner: str, processes: int, text: str) -> None:
    spec = wish({}, contract="v3", distribution=runner, processes=processes)
    files = scriptmode.config_files(spec, on("algo-1"))
    found = scriptmode.variables(spec, on("algo-1"))
    assert files["input/data/sm_drivers/distributed.json"] == text
    assert found.get("SM_DISTRIBUTED_CONFIG") == (text if runner else None)
    folder = "/opt/ml/input/data/sm_drivers/distributed_drivers"
    assert found.get("SM_DISTRIBUTED_DRIVER_DIR") == (folder if runner else None)
    assert "MASTER_ADDR" not in found


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (on("algo-2"), ["algo-1", "7777"]),
        (on("algo-2", port=7780), ["algo-1", "7780"]),
        (on("algo-2", base="/data/ml", addresses={"algo-1": "127.7.7.1"}, port=7780), ["127.7.7.1", "7780"]),
    ],
)
def test_sdk_3_tells_where_the_first_host_listens_and_a_launcher_is_told_the_same(
    place: HostInfo, told: list[str]
) -> None:
    found = scriptmode.variables(wish({}, contract="v3"), place)
    facts = json.loads(found["SM_TRAINING_ENV"])
    assert [found["SM_MASTER_ADDR"], found["SM_MASTER_PORT"]] == told
    assert [facts["master_addr"], str(facts["master_port"])] == told
    launched = distribution.host_distribution(wish({}, contract="v3", distribution="torchrun"), place)
    assert launched is not None
    assert distribution.torchrun_arguments(launched, place)[5:8:2] == told


def test_hosts_are_listed_as_words_are_and_groups_as_they_are_given() -> None:
    hosts = [f"algo-{number}" for number in range(1, 12)]
    groups = [{"instance_group_name": "dnn", "instance_type": "local", "hosts": hosts}]
    config = configfiles.resource_config(on("algo-1", hosts=hosts, groups=groups))
    assert config["hosts"] == ["algo-1", "algo-10", "algo-11", *hosts[1:9]]
    assert config["instance_groups"] == groups


def test_hyperparameters_of_sdk_2_distribute_neither_processing_nor_the_other_contract() -> None:
    assert distribution.host_distribution(wish(of_dnn(TORCH), contract="v3"), on("algo-1")) is None
    assert distribution.host_distribution(wish(of_dnn(TORCH), kind="process"), on("algo-1")) is None
