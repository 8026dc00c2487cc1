"""What a script sees by ``--contract v3``, beside what the real drivers of SageMaker's Python SDK 3 show it."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from real_toolkit import SHELL, TELL

from jupyter_smx.agent.contract import failure_command, scriptmode, sdk3_driver
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent
    from real_toolkit import RealPackages, Seen

HYPERPARAMETERS = {
    "zip": "00123",
    "batch-size": "32",
    "big": "12345678901234567890",
    "cfg": '{"b": [2], "a": 1, "none": null}',
    "empty": "",
    "flag": "true",
    "flag_py": "True",
    "list": '[1, 2.5, null, true, "a b"]',
    "small": "1e-5",
    "nan": "NaN",
    "none": "null",
    "quoted": '"adam"',
    "twice": '"5"',
    "twice_list": '"[1,2]"',
    "unicode": '"ünï 日本"',
    "x": "5",
    "line": "a\nb",
    "sagemaker_own": "1",
    "_tuning_objective_metric": "loss",
}
HOSTS = ["algo-3", "algo-10", "algo-2"]
GROUPS = [
    {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-3"]},
    {"instance_group_name": "train", "instance_type": "ml.g5.xlarge", "hosts": ["algo-10", "algo-2"]},
]
OWN_WORDS = "import sys\nopen('/opt/ml/output/failure', 'w').write('the moon is full')\nsys.exit(3)"
PLATFORM = ("TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "AWS_REGION")


def _start(
    real_packages: RealPackages,
    folder: Path,
    mine: dict[str, Any],
    text: str,
    name: str = "real",
    distributed: str = "{}",
) -> Seen:
    """Run a script as ``sm_train.sh`` of the SDK runs it, with the config files that our job had."""
    train = real_packages.drivers()
    templates = runpy.run_path(str(train / "templates.py"))
    shell = templates["TRAIN_SCRIPT_TEMPLATE"].format(
        working_dir="cd /opt/ml/input/data/code \n",
        install_requirements="",
        execute_driver=templates["EXECUTE_BASIC_SCRIPT_DRIVER"],
    )
    files = {f"input/config/{name}": content for name, content in mine["files"].items()}
    script = "run.sh" if text == SHELL else "train.py"
    files[f"input/data/code/{script}"] = text
    files["input/data/sm_drivers/sm_train.sh"] = shell
    files["input/data/sm_drivers/sourcecode.json"] = json.dumps({"source_dir": "code", "entry_script": script})
    files["input/data/sm_drivers/distributed.json"] = distributed
    tools = folder / f"tools-of-{name}"
    tools.mkdir()
    (tools / "pip").symlink_to("/bin/true")  # is looked for, and not used
    platform = {name: mine["environment"][name] for name in PLATFORM}
    return real_packages.start(
        folder / name,
        ["/bin/bash", "/opt/ml/input/data/sm_drivers/sm_train.sh"],
        files=files,
        environment={**platform, "PATH": f"{real_packages.python.parent}:{tools}:/usr/bin:/bin"},
        hosts=HOSTS,
        folders=[(str(train / "container_drivers"), "input/data/sm_drivers")],
    )


@pytest.fixture
def driven(start_agent: Callable[..., Agent], far_folder: Path) -> Agent:
    """Give a host of two groups with a world of its own: the drivers know no other place than /opt/ml."""
    agent = start_agent(
        isolate=True,
        parent=far_folder,
        threads=os.cpu_count(),
        hosts=HOSTS,
        groups=GROUPS,
        host="algo-2",
        group="train",
    )
    if agent.greeting["isolation"]["mode"] != "namespace":
        pytest.skip(f"no namespaces here: {agent.greeting['isolation']['reason']}")
    return agent


def _seen(agent: Agent, text: str = TELL, entry_point: str = "train.py", **fields: Any) -> dict[str, Any]:
    job, _lease = agent.start(text, contract="v3", entry_point=entry_point, **fields)
    record = agent.end_of(job)
    assert record["exit_code"] == 0, agent.log(job)
    found: dict[str, Any] = json.loads(agent.log(job).partition("SEEN")[2])
    return found


def _of_the_contract(seen: dict[str, Any]) -> dict[str, Any]:
    names = ("argv", "cwd", "file", "name", "path")
    environment = seen["environment"]
    variables = {name: text for name, text in environment.items() if name.startswith(("SM_", "TRAINING_", "SAGEMAKER"))}
    return {**{name: seen[name] for name in names}, **variables}


@pytest.mark.heavy("toolkits")
def test_a_script_sees_what_the_drivers_show_it(driven: Agent, real_packages: RealPackages, far_folder: Path) -> None:
    channels = [{"name": name, "source": str(far_folder / "data")} for name in ("val", "train_2")]
    (far_folder / "data").mkdir()
    mine = _seen(driven, hyperparameters=HYPERPARAMETERS, channels=channels)
    real = _start(real_packages, far_folder, mine, TELL)
    assert real.code == 0, real.log
    assert _of_the_contract(mine) == _of_the_contract(real.seen)
    assert not {"CURRENT_HOST", "SM_USER_ARGS", "SM_IS_HETERO"} & mine["environment"].keys()


# Does what a driver does up to the moment in which it would start the launcher, and tells the words.
LAUNCH = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from distributed_drivers import mpi_driver, torchrun_driver
torchrun_driver.pytorch_version = lambda: (2, 4)
def tell(words):
    print("WORDS" + json.dumps([words, os.environ.get("NCCL_PROTO"), os.environ.get("NCCL_SOCKET_IFNAME")]))
    return 0, ""
driver = {"mpi": mpi_driver, "torchrun": torchrun_driver}[sys.argv[2]]
driver.execute_commands = tell
for name in "write_env_vars_to_file start_sshd_daemon bootstrap_master_node write_status_file_to_workers".split():
    setattr(mpi_driver, name, lambda *words: None)
driver.main()
"""


@pytest.mark.heavy("toolkits")
@pytest.mark.parametrize("processes", [0, 1, 2])
@pytest.mark.parametrize("runner", ["torchrun", "mpi"])
def test_a_distribution_is_told_and_started_as_by_the_drivers(
    real_packages: RealPackages, runner: str, processes: int
) -> None:
    hosts = ["algo-10", "algo-1", "algo-2"]
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": hosts}
    place = HostInfo("algo-1", hosts, [group], "homogeneousCluster", "local", 2, 0)
    values = {"lr": "0.1", "on": "true"}
    fields = {"source": "", "contract": "v3", "hyperparameters": values, "processes": processes}
    spec = scriptmode.complete({**fields, "distribution": runner})
    variables = scriptmode.variables(spec, place)
    drivers = real_packages.drivers() / "container_drivers"
    done = subprocess.run(
        [str(real_packages.python), "-c", LAUNCH, str(drivers), runner],
        env={
            **variables,
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/lib",
            "NCCL_PROTO": "",
            "NCCL_SOCKET_IFNAME": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    theirs, protocol, interface = json.loads(done.stdout.partition("WORDS")[2])
    mine = failure_command.command_prefix(spec, place)
    if runner == "torchrun":
        assert (protocol, interface) == (variables["NCCL_PROTO"], variables["NCCL_SOCKET_IFNAME"])
    else:
        at = mine.index(sys.executable)
        mine[at : at + 1] = [theirs[theirs.index("-m") - 1]]
        # A variable that is not there need not be handed on.
        at = mine.index("PATH") - 1
        mine[at:at] = ["-x", "LD_LIBRARY_PATH"]
    assert mine == theirs


@pytest.mark.heavy("toolkits")
def test_the_file_of_a_distribution_becomes_the_variables_that_it_becomes_there(
    driven: Agent, real_packages: RealPackages, far_folder: Path
) -> None:
    mine = _seen(driven)
    spec = scriptmode.complete({"source": "", "contract": "v3", "distribution": "torchrun", "processes": 2})
    texts = sdk3_driver.texts(spec, HostInfo("algo-1", ["algo-1"], [], "", "local", 2, 0))
    file = texts["input/data/sm_drivers/distributed.json"]
    theirs = _start(real_packages, far_folder, mine, TELL, distributed=file)
    assert theirs.code == 0, theirs.log
    ours = sdk3_driver.variables(spec, HostInfo("algo-1", ["algo-1"], [], "", "local", 2, 0))
    names = ("SM_DISTRIBUTED_DRIVER_DIR", "SM_DISTRIBUTED_CONFIG")
    assert [theirs.seen["environment"][name] for name in names] == [ours[name] for name in names]
    assert not set(names) & mine["environment"].keys()


@pytest.mark.heavy("toolkits")
def test_a_script_ends_as_the_drivers_let_it_end(driven: Agent, real_packages: RealPackages, far_folder: Path) -> None:
    mine = _seen(driven)
    text = "import sys\nprint('leaves')\nsys.exit(3)"
    real = _start(real_packages, far_folder, mine, text)
    record = driven.run(text, contract="v3", entry_point="train.py")
    assert record["exit_code"] == real.code == 3
    theirs = real.failure.strip().splitlines()[-1]
    assert record["reason"] == theirs.replace(str(real_packages.python.parent / "python3"), sys.executable)
    theirs_first = _start(real_packages, far_folder, mine, OWN_WORDS, "again").failure
    assert driven.run(OWN_WORDS, contract="v3", entry_point="train.py")["reason"] == theirs_first == "the moon is full"


@pytest.mark.heavy("toolkits")
def test_a_shell_script_sees_what_the_drivers_show_it(
    driven: Agent, real_packages: RealPackages, far_folder: Path
) -> None:
    mine = _seen(driven, SHELL, "run.sh", hyperparameters={**HYPERPARAMETERS, "quotes": 'a "b" $(c)'})
    real = _start(real_packages, far_folder, mine, SHELL)
    assert real.code == 0, real.log
    assert _of_the_contract(mine) == _of_the_contract(real.seen)


def test_a_cell_is_a_script_there_as_well(driven: Agent) -> None:
    source = """
import json, os, sys
print(json.dumps([os.getcwd(), __file__, sys.argv, os.listdir("."), sys.path[0], os.environ["SM_CHANNELS"]]))
"""
    code = "/opt/ml/input/data/code"
    found = driven.json(source, contract="v3", hyperparameters={"b": "true", "a": "1"})
    argv = ["train.py", "--b", "true", "--a", "1"]
    assert found == [code, f"{code}/train.py", argv, ["train.py"], code, '["code", "sm_drivers"]']
    assert driven.json("import json, os; print(json.dumps(os.getcwd()))") == "/opt/ml/code", "the next job has its own"


def test_bash_reads_the_file_of_variables_as_they_are_set(driven: Agent) -> None:
    source = """
import json, os, subprocess
read = "set -e; source /opt/ml/input/sm_training.env; env -0"
told = subprocess.run(["bash", "-c", read], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True).stdout
pairs = dict(line.split("=", 1) for line in told.decode().split("\\0") if line)
print(json.dumps({name: [text, os.environ.get(name)] for name, text in pairs.items() if name.startswith("SM_")}))
"""
    found = driven.json(source, contract="v3", hyperparameters=HYPERPARAMETERS)
    assert len(found) > 30
    assert {name: text for name, (text, _set) in found.items()} == {name: was for name, (_text, was) in found.items()}


def test_where_opt_ml_lies_elsewhere_the_variables_say_so(agent: Agent) -> None:
    names = ("SM_SOURCE_DIR", "SM_MODEL_DIR", "SM_OUTPUT_FAILURE")
    source = f"import json, os; print(json.dumps([os.getcwd(), *(os.environ[name] for name in {names!r})]))"
    ml = f"{agent.folder}/ml"
    code = f"{ml}/input/data/code"
    assert agent.json(source, contract="v3") == [code, code, f"{ml}/model", f"{ml}/output/failure"]


def test_there_is_no_third_contract(agent: Agent) -> None:
    answer = agent.client.ask("run", job="a" * 16, lease=1, spec=agent.spec("pass", contract="v4"))
    assert not answer["ok"]
    assert "it must be v2 or v3" in answer["message"]
