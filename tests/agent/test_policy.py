"""What the agent decides without touching the world: frames, script mode, deadlines, verdicts, environments."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import socket
import string
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx import agent as package
from jupyter_smx.agent import wire
from jupyter_smx.agent.code import environment_build
from jupyter_smx.agent.contract import hyperparameters, script, scriptmode
from jupyter_smx.agent.host import config
from jupyter_smx.agent.host.end_record import cause_of
from jupyter_smx.agent.host.idle_deadline import LINGER, Deadline
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.agent.system.files.host_folder import JOB_FOLDERS, SKELETON, skeleton_entries
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.agent.system.processes import environment, process

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
STEP_GPUS = {"SLURM_STEP_GPUS": "2,3", "SLURM_JOB_GPUS": "2,3"}
HEADERS = st.dictionaries(st.text().filter(lambda name: name != "size"), JSON)
FRAMES = st.lists(st.tuples(HEADERS, st.none() | st.binary(max_size=200)), max_size=5)


@given(FRAMES, st.lists(st.integers(1, 40)))
def test_frames_arrive_whole_whatever_the_pieces(
    frames: list[tuple[dict[str, Any], bytes | None]], cuts: list[int]
) -> None:
    data = b"".join(wire.encode(header, body) for header, body in frames)
    decoder = wire.Decoder()
    seen: list[wire.Frame] = []
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        seen += decoder.feed(piece)
    seen += decoder.feed(data)
    expected = [(header if body is None else {**header, "size": len(body)}, body or b"") for header, body in frames]
    assert [tuple(frame) for frame in seen] == expected


@given(st.binary(max_size=60))
def test_no_bytes_harm_the_decoder(data: bytes) -> None:
    try:
        list(wire.Decoder().feed(data))
    except wire.WireError as error:
        assert ":" in str(error)  # noqa: PT017 - either outcome is fine, only another error is not


def test_the_longest_header_arrives_and_a_longer_one_is_refused_on_both_sides_with_its_size() -> None:
    text = "x" * (wire.MAX_HEADER - len('{"a":""}'))
    frame = wire.encode({"a": text})
    assert [one.header for one in wire.Decoder().feed(frame)] == [{"a": text}]
    assert frame[0] == 0, "an agent takes another byte for the tag of a message of a job's process"
    longer = f"header: {wire.MAX_HEADER + 1} bytes exceed the limit of {wire.MAX_HEADER} bytes"
    with pytest.raises(wire.WireError, match=longer):
        wire.encode({"a": f"{text}x"})
    with pytest.raises(wire.WireError, match=longer):
        list(wire.Decoder().feed((wire.MAX_HEADER + 1).to_bytes(4, "big")))


def test_both_blocking_and_asyncio_readers_read_a_frame_and_not_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.encode({"a": 1}, b"body") + wire.encode({"b": 2}))
        assert wire.receive(theirs) == ({"a": 1, "size": 4}, b"body")
        assert wire.receive(theirs).header == {"b": 2}

    async def read() -> wire.Frame:
        reader = asyncio.StreamReader()
        reader.feed_data(wire.encode({"a": 1}, b"body"))
        return await wire.read(reader)

    assert asyncio.run(read()) == ({"a": 1, "size": 4}, b"body")


@pytest.mark.parametrize(
    ("text", "value", "word", "variable"),
    [
        ("32", 32, "32", "32"),
        ("0.001", 0.001, "0.001", "0.001"),
        ("1e-5", 1e-05, "1e-05", "1e-05"),
        ("true", True, "True", "true"),
        ('"adam"', "adam", "adam", "adam"),
        ("adam", "adam", "adam", "adam"),
        ("True", "True", "True", "True"),
        ("null", None, "", ""),
        ("00123", "00123", "00123", "00123"),
        ("", "", "", ""),
        ("[1, 2, 3]", [1, 2, 3], "[1, 2, 3]", "[1,2,3]"),
        ('{"b": [2], "a": 1}', {"b": [2], "a": 1}, "a=1,b=[2]", '{"a":1,"b":[2]}'),
    ],
)
def test_hyperparameters_are_read_as_sagemaker_reads_them(text: str, value: object, word: str, variable: str) -> None:
    assert hyperparameters.decode(text) == value
    assert hyperparameters.arguments({"key": hyperparameters.decode(text)}) == ["--key", word]
    assert hyperparameters.format_variable(hyperparameters.decode(text)) == variable


def test_names_of_sagemaker_are_no_hyperparameters_of_the_user() -> None:
    own, framework = hyperparameters.split({"a": "1", "sagemaker_program": "t.py", "_tuning_objective_metric": "x"})
    assert (own, framework) == ({"a": 1}, {"sagemaker_program": "t.py"})


PLACE = HostInfo(
    host="algo-2",
    hosts=["algo-2", "algo-10", "algo-1"],
    groups=[
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "train", "instance_type": "ml.p3.2xlarge", "hosts": ["algo-10", "algo-2"]},
    ],
    group="train",
    instance_type="ml.p3.2xlarge",
    cpus=8,
    gpus=1,
)


def spec(**changes: Any) -> dict[str, Any]:
    return scriptmode.complete({"source": "pass", "kind": "train", "name": "n", **changes})


def test_a_heterogeneous_cluster_in_variables() -> None:
    channels = [{"name": "my-val", "source": "x"}, {"name": "a.b", "source": "y", "distribution": "ShardedByS3Key"}]
    found = scriptmode.variables(spec(channels=channels, environment={"SM_HOSTS": "mine", "OWN": "x"}), PLACE)
    assert json.loads(found["SM_HOSTS"]) == ["algo-1", "algo-10", "algo-2"], "sorted as text, as on SageMaker"
    assert found["SM_IS_HETERO"] == "true"
    assert found["SM_CURRENT_INSTANCE_GROUP"] == "train"
    assert json.loads(found["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == ["algo-10", "algo-2"]
    assert json.loads(found["SM_INSTANCE_GROUPS"]) == ["data", "train"]
    assert found["SM_CHANNEL_MY-VAL"] == "/opt/ml/input/data/my-val"
    assert found["SM_CHANNEL_A.B"] == "/opt/ml/input/data/a.b"
    assert json.loads(found["SM_CHANNELS"]) == ["a.b", "my-val"]
    assert found["OWN"] == "x"
    assert json.loads(found["SM_TRAINING_ENV"])["is_master"] is False
    assert json.loads(found["SM_INPUT_DATA_CONFIG"])["a.b"]["S3DistributionType"] == "ShardedByS3Key"
    assert "SAGEMAKER_BASE_DIR" not in found


def test_every_variable_of_the_contract_is_there() -> None:
    names = [
        "HOSTS",
        "CURRENT_HOST",
        "NETWORK_INTERFACE_NAME",
        "CURRENT_INSTANCE_TYPE",
        "CURRENT_INSTANCE_GROUP",
        "CURRENT_INSTANCE_GROUP_HOSTS",
        "INSTANCE_GROUPS",
        "INSTANCE_GROUPS_DICT",
        "DISTRIBUTION_INSTANCE_GROUPS",
        "IS_HETERO",
        "NUM_CPUS",
        "NUM_GPUS",
        "NUM_NEURONS",
        "CHANNELS",
        "HPS",
        "USER_ARGS",
        "USER_ENTRY_POINT",
        "MODULE_NAME",
        "MODULE_DIR",
        "MODEL_DIR",
        "INPUT_DIR",
        "INPUT_CONFIG_DIR",
        "OUTPUT_DIR",
        "OUTPUT_DATA_DIR",
        "OUTPUT_INTERMEDIATE_DIR",
        "LOG_LEVEL",
        "FRAMEWORK_MODULE",
        "FRAMEWORK_PARAMS",
        "RESOURCE_CONFIG",
        "INPUT_DATA_CONFIG",
        "TRAINING_ENV",
    ]
    found = scriptmode.variables(spec(), PLACE)
    assert {f"SM_{name}" for name in names} <= found.keys()
    assert {"CURRENT_HOST", "TRAINING_JOB_NAME", "TRAINING_JOB_ARN", "SAGEMAKER_JOB_NAME"} <= found.keys()


@given(st.dictionaries(st.text(string.ascii_letters + "-_", min_size=1), JSON))
def test_script_mode_takes_any_hyperparameters(values: dict[str, Any]) -> None:
    wish = spec(hyperparameters={name: json.dumps(value) for name, value in values.items()})
    own, _framework = hyperparameters.split(wish["hyperparameters"])
    assert all(isinstance(value, str) for value in scriptmode.variables(wish, PLACE).values())
    assert len(script.argv(wish, PLACE)) == 1 + 2 * len(own)
    files = scriptmode.config_files(wish, PLACE)
    assert wish["hyperparameters"].items() <= json.loads(files["input/config/hyperparameters.json"]).items()


def test_only_jobs_with_checkpoints_have_their_config_file() -> None:
    name = "input/config/checkpointconfig.json"
    assert name not in scriptmode.config_files(spec(checkpoint=""), PLACE)
    written = scriptmode.config_files(spec(checkpoint="/home/me/kept"), PLACE)
    assert written[name] == '{"LocalPath": "/opt/ml/checkpoints"}'


def test_paths_of_outputs_are_under_opt_ml() -> None:
    elsewhere = PLACE._replace(base="/home/me/ml")
    assert elsewhere.real_path("/opt/ml/processing/out") == "/home/me/ml/processing/out"
    assert elsewhere.real_path("processing/out") == "/home/me/ml/processing/out"
    for path in ("/data/out", "/opt/mlx", "/opt/ml", "", "../../x", "/opt/ml/model/../../../x", "processing/../.."):
        with pytest.raises(ValueError, match="is not a folder below /opt/ml") as refusal:
            elsewhere.real_path(path)
        assert repr(path) in str(refusal.value)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bug_10_the_deadline_counts_on_its_own_clock() -> None:
    clock = Clock()
    deadline = Deadline(30, clock)
    clock.now += 29
    assert deadline.remaining() == 1
    clock.now += 3600  # the lid was closed
    assert deadline.remaining() == 0


@given(st.lists(st.sampled_from(["begin", "end", "set", "never", "wait"]), max_size=20), st.floats(0, 1e6))
def test_a_job_is_never_over_by_the_deadline_and_an_idle_host_has_one(steps: list[str], seconds: float) -> None:
    clock = Clock()
    deadline, busy, never = Deadline(120, clock), False, False
    for step in steps:
        if step == "begin":
            busy = True
            deadline.begin_job()
        elif step == "end":
            busy, never = False, False
            deadline.end_job(seconds)
            assert deadline.remaining() == pytest.approx(max(seconds, LINGER))
        elif step == "wait":
            clock.now += seconds
        else:
            never = step == "never"
            deadline.set(None if never else seconds)
        assert (deadline.remaining() is None) == (busy or never)


@pytest.mark.parametrize(
    ("status", "asked", "refused", "oom", "cause"),
    [
        (0, "", False, False, "exit"),
        (3 << 8, "", False, True, "exit"),
        (9, "", False, False, "signal"),
        (9, "", False, True, "memory"),
        (11, "", False, True, "signal"),
        (137 << 8, "", False, True, "memory"),
        (137 << 8, "", False, False, "exit"),
        (15, "stopped", False, False, "stopped"),
        (0, "max_runtime", False, False, "max_runtime"),
        (1 << 8, "", True, False, "refused"),
        (None, "", False, False, "refused"),
        (None, "stopped", True, False, "stopped"),
    ],
)
def test_causes(status: int | None, asked: str, *, refused: bool, oom: bool, cause: str) -> None:
    assert cause_of(status, asked, refused=refused, oom=oom) == cause


@pytest.mark.parametrize(("oom", "cause"), [(True, "memory"), (False, "exit")])
def test_a_killed_rank_ended_for_lack_of_memory_if_the_system_killed_for_it(*, oom: bool, cause: str) -> None:
    assert cause_of(1 << 8, "", refused=False, oom=oom, killed=True) == cause


def test_the_environment_of_jobs_has_no_secret() -> None:
    inherited = {
        "JUPYTER_TOKEN": "s",
        "JUPYTERHUB_API_TOKEN": "s",
        "JPY_PARENT_PID": "1",
        "JUPYTER_SMX_DATA_DIR": "/d",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PATH": "/usr/bin:/env/bin",
        "HOME": "/home/me",
    }
    found = environment.scrub(inherited, "c/algo-1", "/env/bin/python")
    assert found == {"PATH": "/env/bin:/usr/bin", "HOME": "/home/me", "JUPYTER_SMX_HOST": "c/algo-1"}
    assert environment.scrub({"MPLBACKEND": "agg"}, "c", "/p/python")["MPLBACKEND"] == "agg"
    told = environment.zygote_environment(found, "/its/own")
    assert told["TMPDIR"] == "/its/own"
    assert {told[name] for name in environment.THREAD_VARIABLES} == {"1"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("tools:own", "tools:own"),
        ("tools::own:other", "tools:own:other"),
        ("linked:other", "linked:other"),
        ("tools:other:own", "own:tools:other"),
        ("tools:nowhere", "own:tools:nowhere"),
        ("old:own", "own:old"),
        ("", "own"),
    ],
)
def test_a_path_stays_as_it_is_where_its_first_python_is_the_own_one(tmp_path: Path, wanted: str, found: str) -> None:
    for name in ("own/python3", "other/python3", "old/python", "tools/cmake"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch(mode=0o755)
    (tmp_path / "linked").symlink_to("own")

    def whole(names: str) -> str:
        return ":".join(name and str(tmp_path / name) for name in names.split(":"))

    told = environment.scrub({"PATH": whole(wanted)}, "c", str(tmp_path / "own" / "python3"))
    assert told["PATH"] == whole(found)


def test_behind_the_programs_of_an_environment_are_those_of_its_base(tmp_path: Path) -> None:
    for name in ("environment/bin/python", "base/bin/python", "other/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch(mode=0o755)
    own, base, other = (str(tmp_path / name / "bin") for name in ("environment", "base", "other"))
    assert environment_build.BASE == environment.BASE, "one writes it, and the other reads it"
    (tmp_path / "environment" / environment.BASE).write_text(f"{base}/python")
    for known, found in (
        (f"{other}:/usr/bin", f"{own}:{base}:{other}:/usr/bin"),
        (f"{other}:{base}:/usr/bin", f"{own}:{base}:{other}:/usr/bin"),
        (f"/tools:{base}:/usr/bin", f"{own}:/tools:{base}:/usr/bin"),
    ):
        assert environment.scrub({"PATH": known}, "c", f"{own}/python")["PATH"] == found


@pytest.mark.parametrize(("sign", "variable"), [("pyvenv.cfg", "VIRTUAL_ENV"), ("conda-meta", "CONDA_PREFIX")])
def test_the_active_environment_of_a_job_is_the_one_of_its_python(tmp_path: Path, sign: str, variable: str) -> None:
    (tmp_path / sign).mkdir()
    elsewhere = {"VIRTUAL_ENV": "/other", "CONDA_PREFIX": "/other", "CONDA_DEFAULT_ENV": "other"}
    found = environment.scrub(elsewhere, "c", str(tmp_path / "bin" / "python"))
    assert found[variable] == str(tmp_path)
    assert set(found) == {variable, "PATH", "JUPYTER_SMX_HOST"}
    assert set(environment.scrub(elsewhere, "c", "/usr/bin/python3")) == {"PATH", "JUPYTER_SMX_HOST"}


def test_what_is_renewed_and_what_is_kept() -> None:
    assert skeleton_entries("sagemaker") == ["warmpoolcache"]
    assert skeleton_entries("model") == []
    assert skeleton_entries("output") == ["data", "intermediate"]
    assert "sagemaker/warmpoolcache" not in JOB_FOLDERS
    assert {name.rpartition("/")[0] for name in SKELETON if "/" in name} <= set(JOB_FOLDERS)


def test_a_description_says_what_is_wrong_with_it() -> None:
    good = {"protocol": 1, "cluster": "c", "host": "algo-1"}
    assert config.parse(good).marker() == "c/algo-1"
    for changes, word in (
        ({"protocol": 2}, "protocol"),
        ({"host": ""}, "host"),
        ({"start_method": "x"}, "start_method"),
    ):
        with pytest.raises(config.ConfigError, match=word):
            config.parse({**good, **changes})


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "2", **STEP_GPUS, "CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        ({"SLURM_GPUS_ON_NODE": "2", **STEP_GPUS, "CUDA_VISIBLE_DEVICES": "2,3"}, 2),
        ({"SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, 1),
        ({}, 1),
        ({"SLURM_GPUS_ON_NODE": "none"}, 1),
    ],
    ids=["batch", "constrained", "not constrained", "no device files", "share of a GPU", "none set", "no number"],
)
def test_a_host_has_the_gpus_that_its_scheduler_granted(variables: dict[str, str], gpus: int) -> None:
    assert config.granted_gpus({"gpus": 1, "gpus_variable": "SLURM_GPUS_ON_NODE"}, variables) == gpus
    assert config.granted_gpus({"gpus": 2}, variables) == 2


def test_the_agent_is_written_in_python_3_8_and_the_standard_library() -> None:
    folder = Path(str(package.__file__)).parent
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 8))
        imports = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        # The courier is a program of its own, for an interpreter that has it.
        own = {"fsspec", "aiohttp"} if path.name == "filesystems.py" else set()
        assert imports <= {*sys.stdlib_module_names, "jupyter_smx", "cloudpickle", *own}, path


def test_a_process_that_is_left_is_named_with_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (sentence,) = host_cleanup.describe_processes([os.getpid()])
        assert f"port {server.getsockname()[1]}" in sentence


def test_the_c_library_is_loaded_once() -> None:
    assert process.libc() is process.libc()
