"""Hosts without an /opt/ml of their own: the cure names the variable that has the folder, as the agent sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import scriptmode
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.controller.scheduling.notebook_folder import DiskFolder, find_cure
from jupyter_smx.model.records.cluster import Host
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
from jupyter_smx.policy.hosts import job_folders
from jupyter_smx.policy.hosts.cures import failure_cure

if TYPE_CHECKING:
    from pathlib import Path

REASON = "unshare: Operation not permitted"
CHANNELS = (Channel(name="train", source="/data"), Channel(name="my-val", source="/data"))
OUTPUTS = (Output(name="days-1", path="processing/output/days"),)
INPUTS = (*CHANNELS, Channel(name="raw", source="/data", path="/opt/ml/processing/table"))


def a_host(mode: str = "variables", name: str = "algo-1") -> Host:
    return Host(name=name, group="g", instance_type="ml.m5.large", isolation=mode, isolation_reason=REASON)


def a_spec(kind: Any = "train", **fields: Any) -> JobSpec:
    return JobSpec(**({"kind": kind, "notebook": "n.ipynb", "working_directory": "/n", "source": "pass"} | fields))


def an_end(message: str, error: str = "FileNotFoundError", host: str = "algo-1") -> HostEnd:
    exception = RemoteException(type=error, message=message, traceback="")
    return HostEnd(host=host, cause="exit", exit_code=1, exception=exception)


def cure(message: str, error: str = "FileNotFoundError", mode: str = "variables", **fields: Any) -> str:
    return failure_cure(a_spec(**fields), an_end(message, error), DiskFolder("/nowhere"), a_host(mode))


def no_file(path: str) -> str:
    return f"[Errno 2] No such file or directory: {path!r}"


@pytest.mark.parametrize(
    ("fields", "path", "variable", "folder"),
    [
        ({}, "/opt/ml/model/a", "SM_MODEL_DIR", "/opt/ml/model"),
        ({}, "/opt/ml/model", "SM_MODEL_DIR", "/opt/ml/model"),
        ({}, "/opt/ml/output/data/x.csv", "SM_OUTPUT_DATA_DIR", "/opt/ml/output/data"),
        ({}, "/opt/ml/output/intermediate/x", "SM_OUTPUT_INTERMEDIATE_DIR", "/opt/ml/output/intermediate"),
        ({}, "/opt/ml/output/failure", "SM_OUTPUT_DIR", "/opt/ml/output"),
        ({}, "/opt/ml/input/config/hyperparameters.json", "SM_INPUT_CONFIG_DIR", "/opt/ml/input/config"),
        ({}, "/opt/ml/input/data/train/a.csv", "SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"),
        ({}, "/opt/ml/input/data/my-val", "SM_CHANNEL_MY-VAL", "/opt/ml/input/data/my-val"),
        ({}, "/opt/ml/input/data/other/a", "SM_INPUT_DIR", "/opt/ml/input"),
        ({}, "/opt/ml/checkpoints/1", "SAGEMAKER_BASE_DIR", "/opt/ml"),
        ({}, "/opt/ml", "SAGEMAKER_BASE_DIR", "/opt/ml"),
        ({"contract": "v3", "entry_point": "a.py"}, "/opt/ml/model/a", "SM_MODEL_DIR", "/opt/ml/model"),
        ({"contract": "v3", "entry_point": "a.py"}, "/opt/ml/output/data", "SM_OUTPUT_DATA_DIR", "/opt/ml/output/data"),
        ({"kind": "process"}, "/opt/ml/processing/input/train/a", "SMX_INPUT_TRAIN", "/opt/ml/processing/input/train"),
        ({"kind": "process"}, "/opt/ml/processing/input/my-val", "SMX_INPUT_MY_VAL", "/opt/ml/processing/input/my-val"),
        ({"kind": "process"}, "/opt/ml/processing/table/a", "SMX_INPUT_RAW", "/opt/ml/processing/table"),
        ({"kind": "process"}, "/opt/ml/processing/output/days", "SMX_OUTPUT_DAYS_1", "/opt/ml/processing/output/days"),
        ({"kind": "process"}, "/opt/ml/config/resourceconfig.json", "SAGEMAKER_BASE_DIR", "/opt/ml"),
    ],
)
def test_the_cure_names_a_variable_that_the_agent_sets_to_that_folder(
    fields: dict[str, Any], path: str, variable: str, folder: str
) -> None:
    more = {"channels": INPUTS, "outputs": OUTPUTS} if fields.get("kind") == "process" else {"channels": CHANNELS}
    assert cure(no_file(path), **fields, **more) == (
        f"The host has no /opt/ml of its own ({REASON}). Use the folder in the variable {variable} instead of {folder}."
    )
    place = HostInfo("algo-1", ["algo-1"], [], "g", "ml.m5.large", 2, 0, base="/there")
    channels = [{"name": one.name, "source": one.source, "path": one.path} for one in more["channels"]]
    outputs = [{"name": one.name, "path": one.path, "mode": one.mode} for one in more.get("outputs", ())]
    words = {"source": "pass", "kind": "train", "channels": channels, "outputs": outputs, **fields}
    spec = scriptmode.complete(words)
    assert scriptmode.variables(spec, place)[variable] == folder.replace("/opt/ml", "/there")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("PermissionError", "[Errno 13] Permission denied: '/opt/ml/model'"),
        ("OSError", "[Errno 30] Read-only file system: '/opt/ml/model/a'"),
        ("NotADirectoryError", "[Errno 20] Not a directory: '/opt/ml/model/a'"),
        ("OSError", "Cannot save file into a non-existent directory: '/opt/ml/model'"),
        ("RuntimeError", "Parent directory /opt/ml/model does not exist."),
        ("CalledProcessError", "Command '['cp', 'a', '/opt/ml/model']' returned non-zero exit status 1."),
        ("XGBoostError", "Opening /opt/ml/model/xgb.json failed: No such file or directory"),
        (
            "OSError",
            "Unable to create file (unable to open file: name = '/opt/ml/model/a.h5', errno = 2)",
        ),
    ],
)
def test_libraries_say_in_their_own_ways_that_a_folder_is_absent(error: str, message: str) -> None:
    assert "Use the folder in the variable SM_MODEL_DIR instead of /opt/ml/model." in cure(message, error)


def test_a_folder_that_only_the_last_lines_of_a_program_name_has_the_cure() -> None:
    said = "Exit Code: 1. cp: cannot create regular file '/opt/ml/model/a': No such file or directory"
    end = HostEnd(host="algo-1", cause="exit", exit_code=1, failure=said)
    spec = a_spec(entry_point="train.sh")
    assert "variable SM_MODEL_DIR" in failure_cure(spec, end, DiskFolder("/nowhere"), a_host())
    assert failure_cure(spec, end, DiskFolder("/nowhere"), a_host("namespace")) == ""


@pytest.mark.parametrize(
    ("error", "message", "mode"),
    [
        ("FileNotFoundError", no_file("/opt/ml/model/a"), "namespace"),
        ("FileNotFoundError", no_file("/opt/ml/model/a"), "container"),
        ("FileNotFoundError", no_file("/opt/ml/smx/clusters/c/algo-1/ml/model/a"), "variables"),
        ("FileNotFoundError", no_file("/data/opt/ml/model/a"), "variables"),
        ("FileNotFoundError", no_file("/opt/mlflow/model"), "variables"),
        ("FileNotFoundError", no_file("/opt/ml/../x"), "variables"),
        ("ValueError", "the model in /opt/ml/model has 3 classes, expected 4", "variables"),
    ],
)
def test_other_failures_do_not_have_it(error: str, message: str, mode: str) -> None:
    assert cure(message, error, mode) == ""


def test_cures_name_variables_instead_of_paths(tmp_path: Path) -> None:
    (tmp_path / "table.csv").touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").touch()
    spec = a_spec(working_directory=str(tmp_path), channels=(Channel(name="train", source=str(tmp_path / "in")),))
    folder = DiskFolder(str(tmp_path))

    def said(message: str, mode: str) -> str:
        return failure_cure(spec, an_end(message), folder, a_host(mode))

    assert said(no_file("table.csv"), "namespace").endswith("to provide it as /opt/ml/input/data/table.")
    assert said(no_file("table.csv"), "variables").endswith("to provide it as $SM_CHANNEL_TABLE.")
    assert said(no_file("in/a.csv"), "variables") == "It is in channel train: $SM_CHANNEL_TRAIN/a.csv in the job."
    process = a_spec("process", working_directory=str(tmp_path))
    assert job_folders.with_variables(process, "as /opt/ml/processing/input/t.") == "as $SMX_INPUT_T."
    assert job_folders.with_variables(process, "in /opt/ml/x, /opt/ml") == (
        "in $SAGEMAKER_BASE_DIR/x, $SAGEMAKER_BASE_DIR"
    )


async def test_the_host_that_failed_counts() -> None:
    hosts = [a_host("namespace", "algo-1"), a_host("variables", "algo-2")]
    spec, message = a_spec(), no_file("/opt/ml/model/a")
    assert "SM_MODEL_DIR" in await find_cure(spec, [an_end(message, host="algo-2")], hosts)
    assert await find_cure(spec, [an_end(message, host="algo-1")], hosts) == ""


def test_a_note_has_the_reason_once() -> None:
    assert job_folders.missing_folder_notes([a_host("namespace"), a_host("container")]) == ()
    (note,) = job_folders.missing_folder_notes([a_host(), a_host(name="algo-2")])
    assert note.startswith(f"Its hosts have no /opt/ml of their own ({REASON}): ")


@pytest.mark.parametrize("mode", ["variables", "namespace"])
def test_a_processing_script_that_does_not_start_in_the_root_folder_has_a_note(mode: str) -> None:
    (note,) = job_folders.working_folder_notes(a_spec("process"), [a_host(mode), a_host(mode, name="algo-2")])
    assert "starts in the folder code of /opt/ml, and not in / as on SageMaker" in note
    assert note.endswith(f"have no / of their own ({REASON}).")


def test_the_note_about_containers_says_that_their_root_folder_is_read_only() -> None:
    (note,) = job_folders.working_folder_notes(a_spec("process"), [a_host("container")])
    assert note.endswith("and not in / as on SageMaker, because / is read-only in its containers.")


def test_other_jobs_and_hosts_with_a_root_folder_have_no_such_note() -> None:
    own = Host(name="algo-1", group="g", instance_type="ml.m5.large", isolation="namespace")
    assert job_folders.working_folder_notes(a_spec("process"), [own]) == ()
    packed = SourceDir(folder="/n", path="/p", sha256="0", files=1, size=1)
    spark = Distribution(runner="pyspark")
    for spec in (a_spec(), a_spec("process", source_dir=packed), a_spec("process", distribution=spark)):
        assert job_folders.working_folder_notes(spec, [a_host()]) == ()
