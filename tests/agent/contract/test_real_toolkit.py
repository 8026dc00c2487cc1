"""What a script sees here, beside what the real ``sagemaker-training`` shows it: row by row, and as whole jobs."""

from __future__ import annotations

import json
import os
import shutil
import string
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_toolkit import SHELL, TELL

from jupyter_smx.agent.contract import configfiles, script, scriptmode
from jupyter_smx.agent.contract import training_toolkit as ours
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent
    from real_toolkit import RealPackages, Toolkit

pytestmark = pytest.mark.heavy("toolkits")

CPUS = os.cpu_count() or 1
MANY = {
    "batch-size": "32",
    "big": "12345678901234567890",
    "cfg": '{"b": [2], "a": 1, "none": null}',
    "empty": "",
    "flag": "true",
    "flag_py": "True",
    "list": '[1, 2.5, null, true, "a b"]',
    "lr": "0.001",
    "name": "adam",
    "nan": "NaN",
    "inf": "-Infinity",
    "none": "null",
    "quoted": '"adam"',
    "small": "1e-5",
    "spaces": " a  b ",
    "unicode": '"ünï 日本"',
    "x": "5",
    "Ω": "1",
    "zip": "00123",
    "quotes": 'it\'s "$(id)"',
    "line": "a\nb",
    "_tuning_objective_metric": "loss",
    "default_user_module_name": "m",
    "sagemaker_enable_cloudwatch_metrics": "false",
    "sagemaker_own": "[1]",
}
GROUPS = [
    {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-3", "algo-10"]},
    {"instance_group_name": "train", "instance_type": "ml.g5.xlarge", "hosts": ["algo-2", "algo-1"]},
]
TWO_GROUPS = {
    "hosts": ["algo-3", "algo-10", "algo-2", "algo-1"],
    "groups": GROUPS,
    "group": "train",
    "host": "algo-1",
    "instance_type": "ml.g5.xlarge",
}
STRATEGY = {"sagemaker_parameter_server_enabled": "true", "sagemaker_distribution_instance_groups": '["train"]'}


def place(**changes: Any) -> HostInfo:
    """Give a host, by default the only one of its job."""
    hosts = changes.get("hosts", ["algo-1"])
    whole: dict[str, Any] = {
        "host": "algo-1",
        "hosts": hosts,
        "groups": [{"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": hosts}],
        "group": "homogeneousCluster",
        "instance_type": "local",
        "cpus": CPUS,
        "gpus": gpus(),
    }
    return HostInfo(**(whole | changes))


def gpus() -> int:
    """Count GPUs by the command that the toolkit asks."""
    if shutil.which("nvidia-smi") is None:
        return 0
    told = subprocess.run(["nvidia-smi", "--list-gpus"], check=False, capture_output=True, text=True).stdout  # noqa: S607
    return sum(line.startswith("GPU ") for line in told.splitlines())


def spec(**changes: Any) -> dict[str, Any]:
    return scriptmode.complete({"source": "pass", "kind": "train", "name": "job-1", **changes})


def compare(toolkit: Toolkit, wish: dict[str, Any], where: HostInfo) -> tuple[dict[str, str], dict[str, str]]:
    """Give our variables and theirs for the same config files; the words and the job's name must be equal."""
    here = where._replace(base=str(toolkit.base))
    texts = {name.rpartition("/")[2]: text for name, text in configfiles.texts(wish, here).items()}
    words, variables, name = toolkit.tell(texts)
    assert script.argv(wish, here)[1:] == words
    mine = ours.variables(wish, here)
    assert mine["SAGEMAKER_JOB_NAME"] == name
    return mine, variables


ROWS = [
    "HOSTS", "CURRENT_HOST", "NETWORK_INTERFACE_NAME", "CURRENT_INSTANCE_TYPE", "CURRENT_INSTANCE_GROUP",
    "CURRENT_INSTANCE_GROUP_HOSTS", "INSTANCE_GROUPS", "INSTANCE_GROUPS_DICT", "DISTRIBUTION_INSTANCE_GROUPS",
    "IS_HETERO", "NUM_CPUS", "NUM_GPUS", "NUM_NEURONS", "CHANNELS", "CHANNEL_MY-VAL", "CHANNEL_A.B", "HPS",
    "HP_BATCH-SIZE", "HP_Ω", "USER_ARGS", "USER_ENTRY_POINT", "MODULE_NAME", "MODULE_DIR", "MODEL_DIR",
    "INPUT_DIR", "INPUT_CONFIG_DIR", "OUTPUT_DIR", "OUTPUT_DATA_DIR", "OUTPUT_INTERMEDIATE_DIR", "LOG_LEVEL",
    "FRAMEWORK_MODULE", "FRAMEWORK_PARAMS", "RESOURCE_CONFIG", "INPUT_DATA_CONFIG", "TRAINING_ENV"
]  # fmt: skip
CHANNELS = [
    {"name": "my-val", "source": "x", "mode": "FastFile"},
    {"name": "a.b", "source": "y", "distribution": "ShardedByS3Key", "content_type": "text/csv"},
]
RICH = spec(hyperparameters={**MANY, **STRATEGY}, channels=CHANNELS, entry_point="pkg/fit.py")


@pytest.mark.parametrize("row", ROWS)
def test_each_variable_is_the_toolkits(toolkit: Toolkit, row: str) -> None:
    mine, theirs = compare(toolkit, RICH, place(**TWO_GROUPS))
    assert mine["SM_" + row] == theirs["SM_" + row]


def test_there_are_no_more_and_no_fewer_variables(toolkit: Toolkit) -> None:
    mine, theirs = compare(toolkit, RICH, place(**TWO_GROUPS))
    assert mine.keys() - theirs.keys() == {"CURRENT_HOST", "SAGEMAKER_JOB_NAME", "SAGEMAKER_REGION"}
    assert theirs.keys() - mine.keys() == set()
    assert {"SM_" + row for row in ROWS} <= theirs.keys()


@pytest.mark.parametrize("host", ["algo-1", "algo-2", "algo-3", "algo-10"])
@pytest.mark.parametrize("chosen", [None, "train", "data", "both", "flag"])
def test_the_master_is_the_toolkits(toolkit: Toolkit, host: str, chosen: str | None) -> None:
    """The first host of the first group that a strategy names leads, in the unsorted order of that group's list."""
    group = "train" if host in {"algo-1", "algo-2"} else "data"
    names = ["data", "train"] if chosen == "both" else [chosen]
    flags = {} if chosen in {None, "flag"} else {"sagemaker_distribution_instance_groups": json.dumps(names)}
    flags |= {"sagemaker_mpi_enabled": "true"} if chosen == "flag" else {}
    mine, theirs = compare(toolkit, spec(hyperparameters=flags), place(**{**TWO_GROUPS, "host": host, "group": group}))
    assert json.loads(mine["SM_TRAINING_ENV"]) == json.loads(theirs["SM_TRAINING_ENV"])


STRATEGIES = [
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_mpi_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_no_strategy_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_torch_distributed_enabled",
]


@pytest.mark.parametrize("value", ["true", "false", "True", "1", ""])
@pytest.mark.parametrize("flag", STRATEGIES)
def test_each_strategy_is_one_of_the_toolkits(toolkit: Toolkit, flag: str, value: str) -> None:
    mine, theirs = compare(toolkit, spec(hyperparameters={flag: value}), place(**TWO_GROUPS))
    assert {one: mine[one] for one in theirs} == theirs


@pytest.mark.parametrize(("name", "text"), MANY.items())
def test_each_hyperparameter_is_read_and_written_as_the_toolkit_does(toolkit: Toolkit, name: str, text: str) -> None:
    mine, theirs = compare(toolkit, spec(hyperparameters={name: text}), place())
    assert {one: mine[one] for one in theirs} == theirs


TEXTS = st.text(max_size=8) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
).map(json.dumps)
NAMES = st.text(max_size=4) | st.text(string.ascii_letters + "-_.", max_size=4) | st.sampled_from(sorted(MANY))


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_any_hyperparameters_are_read_and_written_as_the_toolkit_does(toolkit: Toolkit, wish: dict[str, str]) -> None:
    mine, theirs = compare(toolkit, spec(hyperparameters=wish), place())
    assert {one: mine[one] for one in theirs} == theirs


OURS_ALONE = {"SAGEMAKER_BASE_DIR", "SM_STUDIO_LOCAL_MODE"}
PLATFORM = ("TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "AWS_REGION", "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY")


def of_the_contract(seen: dict[str, Any], base: str) -> dict[str, Any]:
    """Give what must be equal: the variables with their names, and how the script was started."""
    variables = {
        name: text.replace(base, "/opt/ml")
        for name, text in seen["environment"].items()
        if name.startswith(("SM_", "SAGEMAKER_", "TRAINING_JOB_")) or name in ("CURRENT_HOST", "AWS_REGION", "OWN")
    }
    started = {name: seen[name].replace(base, "/opt/ml") for name in ("cwd", "file", "name", "path")}
    first = seen["environment"]["PYTHONPATH"].split(":")[0].replace(base, "/opt/ml")
    kept = {name: text for name, text in variables.items() if name not in OURS_ALONE}
    return {**started, "argv": seen["argv"], "first of PYTHONPATH": first, "variables": kept}


WHOLE = {
    "one host": ({}, {}),
    "hyperparameters": ({}, {"hyperparameters": MANY}),
    "eleven hosts": ({"hosts": [f"algo-{number}" for number in range(1, 12)], "host": "algo-2"}, {}),
    "two groups": (TWO_GROUPS, {"hyperparameters": STRATEGY}),
    "channels": ({}, {"channels": CHANNELS, "entry_point": "pkg/fit.py", "warm_pool": True}),
    "a shell script": (TWO_GROUPS, {"entry_point": "run_it.sh", "hyperparameters": MANY}),
    "variables": (
        {},
        {"environment": {"OWN": "x", "SM_HOSTS": "mine", "AWS_REGION": "eu-west-1", "SM_LOG_LEVEL": "0"}},
    ),
}


def both(
    agent: Agent, real_packages: RealPackages, folder: Path, wish: dict[str, Any], hosts: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one script in a job of ours and by the real ``train``, which gets the same config files."""
    isolated = agent.greeting["isolation"]["mode"] == "namespace"
    (folder / "data").mkdir()
    channels = [{**one, "source": str(folder / "data")} for one in wish.get("channels", [])]
    text = SHELL if wish.get("entry_point", "").endswith(".sh") else TELL
    job, _lease = agent.start(text, **{"entry_point": "train.py", **wish, "channels": channels})
    record = agent.end_of(job)
    assert record["exit_code"] == 0, agent.log(job)
    mine = json.loads(agent.log(job).partition("SEEN")[2])
    here = "/opt/ml" if isolated else str(agent.folder / "ml")
    there = "/opt/ml" if isolated else str(folder / "real" / "ml")
    files = {f"input/config/{name}": text.replace(here, there) for name, text in mine["files"].items()}
    files["code/" + wish.get("entry_point", "train.py")] = text
    platform = {name: mine["environment"][name] for name in PLATFORM if name in mine["environment"]}
    platform = {name: text.replace(here, there) for name, text in platform.items()}
    real = real_packages.start(
        folder / "real",
        [str(real_packages.train)],
        files=files,
        environment={**wish.get("environment", {}), **platform},
        hosts=hosts,
        isolated=isolated,
    )
    assert real.code == 0, real.log
    return of_the_contract(mine, here), of_the_contract(real.seen, there)


@pytest.mark.parametrize("name", WHOLE)
def test_a_script_sees_what_the_toolkit_shows_it(
    start_agent: Callable[..., Agent], real_packages: RealPackages, far_folder: Path, name: str
) -> None:
    host, wish = WHOLE[name]
    agent = start_agent(isolate=True, parent=far_folder, **{"threads": CPUS, "gpus": gpus(), **host})
    if agent.greeting["isolation"]["mode"] != "namespace":
        pytest.skip(f"no namespaces here: {agent.greeting['isolation']['reason']}")
    mine, theirs = both(agent, real_packages, far_folder, wish, host.get("hosts", ["algo-1"]))
    assert mine == theirs


@pytest.mark.parametrize("name", ["hyperparameters", "two groups"])
def test_a_script_sees_it_where_opt_ml_lies_elsewhere(
    start_agent: Callable[..., Agent], real_packages: RealPackages, far_folder: Path, name: str
) -> None:
    host, wish = WHOLE[name]
    agent = start_agent(parent=far_folder, **{"threads": CPUS, "gpus": gpus(), **host})
    mine, theirs = both(agent, real_packages, far_folder, wish, host.get("hosts", ["algo-1"]))
    assert mine == theirs
    assert "SM_MODEL_DIR" in mine["variables"]


ENVIRONMENT = """
import json
from sagemaker_training import environment
found = environment.Environment()
print("TOLD" + json.dumps([dict(found), environment.code_dir, found.to_cmd_args(), found.to_env_vars()]))
"""


@pytest.mark.parametrize("isolate", [True, False])
def test_a_script_may_ask_the_toolkit_itself(
    start_agent: Callable[..., Agent], real_packages: RealPackages, far_folder: Path, *, isolate: bool
) -> None:
    """The package is in the job's Python, and knows nothing of us: it reads the files and variables of the job."""
    program = (str(real_packages.python), "-m", "jupyter_smx.agent")
    agent = start_agent(isolate=isolate, parent=far_folder, options={"program": program}, threads=CPUS, gpus=gpus())
    if isolate and agent.greeting["isolation"]["mode"] != "namespace":
        pytest.skip(f"no namespaces here: {agent.greeting['isolation']['reason']}")
    source = "import json, os, sys\nprint('SEEN' + json.dumps([dict(os.environ), sys.argv]))" + ENVIRONMENT
    record = agent.run(source, hyperparameters=MANY)
    assert record["exit_code"] == 0, record["text"]
    before, after = record["text"].split("TOLD")
    environment, argv = json.loads(before.partition("SEEN")[2])
    facts, code, words, variables = json.loads(after)
    assert code == environment["SM_MODULE_DIR"]
    assert words == argv[1:]
    assert facts["user_entry_point"] == "train.py"
    assert facts["job_name"] == environment["TRAINING_JOB_NAME"]
    assert {name: environment[name] for name in variables} == variables
