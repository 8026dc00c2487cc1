"""Contract group H, script mode: a script finds SageMaker's files, variables, arguments and folders."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.testing.harness import Harness

REPORT_SCRIPT = """
import json, os, sys
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
folder = os.path.join(base, "input", "config")
print(json.dumps({
    "base": base,
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "file": os.path.abspath(__file__),
    "name": __name__,
    "path": sys.path[0],
    "folders": [name for name in FOLDERS if os.access(os.path.join(base, name), os.R_OK | os.W_OK | os.X_OK)],
    "files": {name: json.load(open(os.path.join(folder, name))) for name in os.listdir(folder)},
    "variables": dict(os.environ),
}))
"""
LISTEN_SCRIPT = """
import json, os, socket
there = os.environ["SM_MASTER_ADDR"], int(os.environ["SM_MASTER_PORT"])
with socket.create_server(there) as server, socket.create_connection(there) as visitor:
    assert server.accept()[1] == visitor.getsockname()
network = os.stat("/proc/self/ns/net").st_ino if os.path.exists("/proc/self/ns/net") else 0
machine = open("/proc/sys/kernel/random/boot_id").read() if network else os.uname().nodename
print(json.dumps([machine, network, there[1]]))
"""
"""Says where the first host listens, having done so."""
LEADER_FIELDS = ("master_addr", "master_port")
FOLDERS = (
    *("code", "input", "input/config", "input/data", "model", "output", "output/data", "output/intermediate"),
    "checkpoints",
)

FIXED_PATHS_SCRIPT = """
import json, os
with open("/opt/ml/input/config/resourceconfig.json") as file:
    host = json.load(file)["current_host"]
with open("/opt/ml/model/x", "w") as file:
    file.write(host)
print(json.dumps([host, os.environ["SM_MODEL_DIR"], os.environ.get("SAGEMAKER_BASE_DIR")]))
"""
"""A typical script: it reads no variable if SageMaker has a fixed path."""
ISOLATED_MODES = ("namespace", "container")

JSON_VARIABLES = (
    "HOSTS CURRENT_INSTANCE_GROUP_HOSTS INSTANCE_GROUPS INSTANCE_GROUPS_DICT DISTRIBUTION_INSTANCE_GROUPS IS_HETERO "
    "NUM_CPUS NUM_GPUS NUM_NEURONS CHANNELS HPS USER_ARGS LOG_LEVEL FRAMEWORK_PARAMS RESOURCE_CONFIG "
    "INPUT_DATA_CONFIG TRAINING_ENV"
)
"""Variables whose value is JSON; the others are plain text."""
TEXT_VARIABLES = (
    "CURRENT_HOST NETWORK_INTERFACE_NAME CURRENT_INSTANCE_TYPE CURRENT_INSTANCE_GROUP USER_ENTRY_POINT MODULE_NAME "
    "MODULE_DIR MODEL_DIR INPUT_DIR INPUT_CONFIG_DIR OUTPUT_DIR OUTPUT_DATA_DIR OUTPUT_INTERMEDIATE_DIR "
    "FRAMEWORK_MODULE"
)
PATHS = {
    "SM_MODULE_DIR": "code",
    "SM_MODEL_DIR": "model",
    "SM_INPUT_DIR": "input",
    "SM_INPUT_CONFIG_DIR": "input/config",
    "SM_OUTPUT_DIR": "output",
    "SM_OUTPUT_DATA_DIR": "output/data",
    "SM_OUTPUT_INTERMEDIATE_DIR": "output/intermediate",
}
HYPERPARAMETERS: dict[str, tuple[str, str, str]] = {
    "batch-size": ("32", "32", "32"),
    "cfg": ('{"b": [2], "a": 1}', "a=1,b=[2]", '{"a":1,"b":[2]}'),
    "empty": ("", "", ""),
    "flag": ("true", "True", "true"),
    "flag_py": ("True", "True", "True"),
    "list": ("[1, 2, 3]", "[1, 2, 3]", "[1,2,3]"),
    "none": ("null", "", ""),
    "quoted": ('"adam"', "adam", "adam"),
    "small": ("1e-5", "1e-05", "1e-05"),
    "x": ("5", "5", "5"),
    "zip": ("00123", "00123", "00123"),
}
"""By name: the value in the request, the script's argument, the value of its variable."""


async def run_report(harness: Harness, handle: Any, host: str = "algo-1", **changes: Any) -> dict[str, Any]:
    """Run the script on one host and give what it saw."""
    async with AgentClient(harness.engine, handle, host) as agent:
        found = last_json(await agent.run_and_wait(REPORT_SCRIPT.replace("FOLDERS", repr(FOLDERS)), **changes))
    assert isinstance(found, dict)
    return found


class ScriptModeGroup:
    """Environment of a training script; processing jobs have a contract of their own."""

    async def test_a_script_starts_in_its_code_and_finds_the_folders(self, harness: Harness) -> None:
        seen = await run_report(harness, await harness.acquire_shared())
        code = seen["base"] + "/code"
        assert (seen["cwd"], seen["file"], seen["path"]) == (code, code + "/train.py", code)
        assert seen["name"] == "__main__"
        assert seen["folders"] == list(FOLDERS)
        assert seen["variables"]["PYTHONPATH"].split(":")[0] == code
        assert {name: seen["variables"][name] for name in PATHS} == {
            name: f"{seen['base']}/{folder}" for name, folder in PATHS.items()
        }

    async def test_paths_that_a_script_spells_out_are_the_jobs_own(self, harness: Harness) -> None:
        handle = await harness.acquire(harness.request(2))
        for host in ("algo-1", "algo-2"):
            async with AgentClient(harness.engine, handle, host) as agent:
                mode = agent.hello["isolation"]["mode"]
                if mode not in ISOLATED_MODES:
                    pytest.skip(f"jobs have no /opt/ml of their own here: {agent.hello['isolation']['reason']}")
                done = await agent.run_and_wait(FIXED_PATHS_SCRIPT)
                assert last_json(done) == [host, "/opt/ml/model", None]
                (kept,) = done.record["artifacts"]
                archive = await agent.read(done.record["job"], "artifacts/" + kept["name"])
            with tarfile.open(fileobj=io.BytesIO(archive)) as members:
                written = members.extractfile("x")
                assert written is not None
                assert written.read() == host.encode()

    async def test_hyperparameters_are_arguments_and_variables_as_the_toolkit_writes_them(
        self, harness: Harness
    ) -> None:
        given = {name: sent for name, (sent, _word, _variable) in HYPERPARAMETERS.items()}
        hidden = {"_tuning_objective_metric": "loss", "sagemaker_own": "1"}
        seen = await run_report(harness, await harness.acquire_shared(), hyperparameters={**given, **hidden})
        words = ["train.py"]
        for name in sorted(given):
            words += [("-" if len(name) == 1 else "--") + name, HYPERPARAMETERS[name][1]]
        assert seen["argv"] == words
        assert json.loads(seen["variables"]["SM_USER_ARGS"]) == words[1:]
        variables = {name: text for name, text in seen["variables"].items() if name.startswith("SM_HP_")}
        assert variables == {f"SM_HP_{name.upper()}": row[2] for name, row in HYPERPARAMETERS.items()}
        assert json.loads(seen["variables"]["SM_FRAMEWORK_PARAMS"]) == {"sagemaker_own": 1}
        file = seen["files"]["hyperparameters.json"]
        assert {name: file[name] for name in given} == given
        assert all(isinstance(value, str) for value in file.values())

    async def test_every_variable_of_the_toolkit_is_set(self, harness: Harness) -> None:
        seen = (await run_report(harness, await harness.acquire_shared()))["variables"]
        assert {"SM_" + name for name in f"{JSON_VARIABLES} {TEXT_VARIABLES}".split()} <= seen.keys()
        values = {name: json.loads(seen["SM_" + name]) for name in JSON_VARIABLES.split()}
        for name, value in values.items():
            compact = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
            assert seen["SM_" + name] == compact, "sorted, without blanks, ASCII"
        assert values["TRAINING_ENV"]["job_name"] == seen["TRAINING_JOB_NAME"] == "contract"
        assert values["TRAINING_ENV"]["hosts"] == values["HOSTS"] == ["algo-1"]
        assert values["INSTANCE_GROUPS"] == ["homogeneousCluster"]
        assert (seen["SM_USER_ENTRY_POINT"], seen["SM_MODULE_NAME"]) == ("train.py", "train")
        assert seen["TRAINING_JOB_ARN"].split(":")[:3] == ["arn", "aws", "sagemaker"]
        assert seen["TRAINING_JOB_ARN"].split(":")[3] == seen["AWS_REGION"] == seen["SAGEMAKER_REGION"]
        assert seen["TRAINING_JOB_ARN"].endswith(":training-job/contract")
        assert "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY" not in seen, "it keeps no pool"

    async def test_channels_stand_in_their_file_and_in_variables(self, harness: Harness, tmp_path: Path) -> None:
        data = tmp_path / "data"
        data.mkdir()
        handle = await harness.acquire_shared()
        there = (await harness.provide_files(handle, "algo-1", [str(data)]))[str(data)]
        plain = {"name": "my-val", "source": there}
        rich = {"mode": "FastFile", "distribution": "ShardedByS3Key", "content_type": "text/csv"}
        channels = [plain, {"name": "a.b", "source": there, **rich}]
        seen = await run_report(harness, handle, channels=channels)
        common = {"RecordWrapperType": "None"}
        assert seen["files"]["inputdataconfig.json"] == {
            "my-val": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", **common},
            "a.b": {
                "TrainingInputMode": "FastFile",
                "S3DistributionType": "ShardedByS3Key",
                "ContentType": "text/csv",
                **common,
            },
        }
        variables = seen["variables"]
        assert json.loads(variables["SM_INPUT_DATA_CONFIG"]) == seen["files"]["inputdataconfig.json"]
        assert json.loads(variables["SM_CHANNELS"]) == ["a.b", "my-val"]
        inputs = seen["base"] + "/input/data"
        assert (variables["SM_CHANNEL_MY-VAL"], variables["SM_CHANNEL_A.B"]) == (inputs + "/my-val", inputs + "/a.b")

    async def test_a_job_with_a_keep_alive_has_the_variable_of_its_cache(self, harness: Harness) -> None:
        seen = await run_report(harness, await harness.acquire_shared(), warm_pool=True)
        assert seen["variables"]["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"].endswith("/sagemaker/warmpoolcache")

    async def test_each_host_of_two_groups_has_its_own_name_and_the_others(self, harness: Harness) -> None:
        group = {"algo-1": "data", "algo-2": "train", "algo-3": "train"}
        request = harness.request(3)
        request = replace(
            request,
            hosts=tuple(replace(plan, group=group[plan.host]) for plan in request.hosts),
            instance_groups=(
                InstanceGroup(name="data", instance_count=1),
                InstanceGroup(name="train", instance_count=2),
            ),
        )
        handle = await harness.acquire(request)
        for host, mine in group.items():
            seen = await run_report(harness, handle, host)
            resources, variables = seen["files"]["resourceconfig.json"], seen["variables"]
            groups = {one["instance_group_name"]: one for one in resources["instance_groups"]}
            assert {name: sorted(one["hosts"]) for name, one in groups.items()} == {
                "data": ["algo-1"],
                "train": ["algo-2", "algo-3"],
            }
            own = groups[mine]
            assert {name: resources[name] for name in ("current_host", "current_group_name", "hosts")} == {
                "current_host": host,
                "current_group_name": mine,
                "hosts": ["algo-1", "algo-2", "algo-3"],
            }
            assert resources["current_instance_type"] == own["instance_type"]
            assert variables["SM_CURRENT_HOST"] == variables["CURRENT_HOST"] == host
            assert variables["SM_CURRENT_INSTANCE_GROUP"] == mine
            assert json.loads(variables["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == own["hosts"]
            assert json.loads(variables["SM_INSTANCE_GROUPS_DICT"]) == groups
            assert json.loads(variables["SM_RESOURCE_CONFIG"]) == resources
            assert variables["SM_IS_HETERO"] == "true"
            facts = json.loads(variables["SM_TRAINING_ENV"])
            assert (facts["master_hostname"], facts["is_master"]) == ("algo-1", host == "algo-1")

    async def test_the_drivers_of_sdk_3_are_another_contract(self, harness: Harness) -> None:
        given = {"z-1": "true", "a": "[1, 2]", "name": "adam"}
        seen = await run_report(harness, await harness.acquire_shared(), contract="v3", hyperparameters=given)
        code = seen["base"] + "/input/data/code"
        assert (seen["cwd"], seen["file"], seen["path"]) == (code, code + "/train.py", code)
        assert seen["argv"] == ["train.py", "--z-1", "true", "--a", "[1, 2]", "--name", "adam"]
        variables = seen["variables"]
        assert (variables["SM_HP_Z_1"], variables["SM_HPS"]) == ("true", '{"z-1": true, "a": [1, 2], "name": "adam"}')
        assert json.loads(variables["SM_CHANNELS"]) == ["code", "sm_drivers"]
        assert (variables["SM_SOURCE_DIR"], variables["SM_ENTRY_SCRIPT"]) == (code, "train.py")
        assert [variables[name] for name in ("SM_HOST_COUNT", "SM_CURRENT_HOST_RANK")] == ["1", "0"]
        facts = json.loads(variables["SM_TRAINING_ENV"])
        assert [variables[f"SM_{name.upper()}"] for name in LEADER_FIELDS] == [
            str(facts[name]) for name in LEADER_FIELDS
        ]
        assert not {"SM_USER_ARGS", "SM_IS_HETERO", "SM_MODULE_DIR", "SM_FRAMEWORK_PARAMS"} & variables.keys()
        assert seen["files"]["hyperparameters.json"] == given

    async def test_the_first_host_by_sdk_3_listens_where_no_other_jobs_does(self, harness: Harness) -> None:
        seen = set()
        for acquire in (harness.acquire_shared, harness.acquire, harness.acquire):
            async with AgentClient(harness.engine, await acquire()) as agent:
                seen.add(str(last_json(await agent.run_and_wait(LISTEN_SCRIPT, contract="v3"))))
            if len(seen) > 1:  # else two of them have one port by chance
                break
        assert len(seen) > 1
