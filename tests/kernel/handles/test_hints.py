"""What a failed job is told about the border between the notebook and the job."""

from __future__ import annotations

import collections
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.kernel.failures import hints
from jupyter_smx.kernel.failures.exceptions import JobFailed, failure_of
from jupyter_smx.kernel.handles.job import Job as Handle
from jupyter_smx.model.records.job import HostEnd, Job, RemoteException
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
from jupyter_smx.model.status import SecondaryStatus


def hint(folder: Path, error: str, message: str, namespace: dict[str, Any] | None = None, **fields: Any) -> str:
    fields = {"kind": "train", "notebook": "n.ipynb", "working_directory": str(folder), "source": "pass"} | fields
    return hints.failure_hint(
        JobSpec(**fields), RemoteException(type=error, message=message, traceback=""), namespace or {}
    )


def no_file(path: str) -> str:
    return f"[Errno 2] No such file or directory: {path!r}"


def packed(folder: Path) -> SourceDir:
    return SourceDir(folder=str(folder), path="/p", sha256="0", files=1, size=1)


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    for name in (
        "data/train.csv",
        "table.csv",
        "helper.py",
        "pkg/part.py",
        "src/deep.py",
        "src/lost.csv",
        "empty/x.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "data/train.csv",
            "data/train.csv is in the folder of the notebook but not in the job. Add --input data=data to provide it",
        ),
        ("table.csv", "Add --input table=table.csv to provide it as /opt/ml/input/data/table."),
        ("./table.csv", "Add --input table=./table.csv"),
        ("data", "Add --input data=data"),
        ("absent.csv", ""),
        ("data/absent.csv", ""),
        ("/opt/ml/input/data/train", ""),
        ("a\0b", ""),
    ],
)
def test_a_file_beside_the_notebook_is_an_input(beside: Path, path: str, said: str) -> None:
    found = hint(beside, "FileNotFoundError", no_file(path))
    assert said in found if said else found == ""


def test_an_absolute_path_of_this_machine_is_an_input(beside: Path) -> None:
    path = str(beside / "table.csv")
    assert f"{path} exists on this machine but not in the job. Add --input table={path}" in hint(
        beside, "FileNotFoundError", no_file(path)
    )


def test_what_is_in_a_channel_is_named_where_it_is(beside: Path) -> None:
    channel = Channel(name="train", source=str(beside / "data"))
    said = "It is in channel train: /opt/ml/input/data/train/train.csv in the job."
    assert hint(beside, "FileNotFoundError", no_file("data/train.csv"), channels=(channel,)) == said
    one = Channel(name="raw", source=str(beside / "table.csv"))
    found = hint(beside, "FileNotFoundError", no_file("table.csv"), channels=(one,), kind="process")
    assert "/opt/ml/processing/input/raw/table.csv in the job" in found


def test_what_stayed_in_the_folder_of_code_is_said_to(beside: Path) -> None:
    source = packed(beside / "src")
    found = hint(beside, "FileNotFoundError", no_file("lost.csv"), source_dir=source)
    assert f"lost.csv is in {beside}/src but was not sent: .gitignore excludes it" in found
    assert "--input lost=lost.csv" in found
    assert "was not sent" in hint(beside, "ModuleNotFoundError", "No module named 'deep'", source_dir=source)


def test_requirements_of_the_folder_are_named(beside: Path) -> None:
    (beside / "src" / "requirements.txt").touch()
    error = ("ModuleNotFoundError", "No module named 'nowhere'")
    found = hint(beside, *error, source_dir=packed(beside / "src"))
    assert found == f"{beside}/src/requirements.txt may list it. Add --requirements"
    assert hint(beside, *error, source_dir=packed(beside / "src"), requirements=("numpy",)) == ""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("helper", "helper is in the folder of the notebook but not in the job. Add --source-dir ."),
        ("pkg.part.deeper", "pkg is in the folder of the notebook but not in the job. Add --source-dir ."),
        ("deep", "deep is in src in the folder of the notebook but not in the job. Add --source-dir src"),
        ("empty", ""),
        ("nowhere", ""),
    ],
)
def test_a_module_beside_the_notebook_is_a_folder_of_code(beside: Path, module: str, said: str) -> None:
    assert hint(beside, "ModuleNotFoundError", f"No module named {module!r}; 'x' is not a package") == said


def test_without_a_notebook_the_folder_is_named(beside: Path) -> None:
    found = hint(beside, "ModuleNotFoundError", "No module named 'helper'", notebook="")
    assert found == f"helper is in {beside} but not in the job. Add --source-dir ."


def test_a_variable_of_the_notebook_is_sent_and_a_module_imported(tmp_path: Path) -> None:
    names = {"cfg": 1, "np": collections, "os": os, "_hidden": 2}
    said = "cfg is a notebook variable that was not sent to the job. Add --send cfg"
    assert hint(tmp_path, "NameError", "name 'cfg' is not defined", names) == said
    assert "Import it in the cell: import collections as np" in hint(
        tmp_path, "NameError", "name 'np' is not defined", names
    )
    assert hint(tmp_path, "NameError", "name 'os' is not defined", names).endswith(": import os")
    for name in ("_hidden", "absent"):
        assert hint(tmp_path, "NameError", f"name {name!r} is not defined", names) == ""


@pytest.mark.parametrize("kind", ["KeyError", "ImportError", "UnboundLocalError"])
def test_other_exceptions_are_left_alone(beside: Path, kind: str) -> None:
    assert hint(beside, kind, "'table.csv'", {"cfg": 1}) == ""


@settings(deadline=None)
@given(kind=st.sampled_from(["FileNotFoundError", "ModuleNotFoundError", "NameError"]), message=st.text())
def test_no_message_breaks_it(kind: str, message: str) -> None:
    for text in (message, no_file(message), f"No module named '{message}'", f"name '{message}' is not defined"):
        assert isinstance(hint(Path("/nowhere"), kind, text, {message: ModuleType("x")}), str)


def failed(folder: Path, message: str, kind: str) -> Job:
    exception = RemoteException(type=kind, message=message, traceback="", line=3)
    spec = JobSpec(kind="train", source="pass", notebook="n.ipynb", working_directory=str(folder))
    end = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)
    return Job(id="a" * 12, name="train-1", spec=spec, state=SecondaryStatus.FAILED, hosts=(end,))


def test_the_hint_stands_in_what_is_raised(beside: Path) -> None:
    failure = failure_of(failed(beside, "No module named 'helper'", "ModuleNotFoundError"))
    assert str(failure) == (
        "train-1 failed: ModuleNotFoundError: No module named 'helper' (line 3). helper is in the folder of "
        "the notebook but not in the job. Add --source-dir ."
    )


def test_a_handle_knows_the_variables_of_its_notebook(tmp_path: Path) -> None:
    record = failed(tmp_path, "name 'cfg' is not defined", "NameError")
    handle = Handle(record, None, lambda _job: None, {"cfg": 1})  # type: ignore[arg-type]  # a final job asks nobody
    with pytest.raises(JobFailed, match="Add --send cfg"):
        handle.result()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def fit():\n    model = 1\n",
            "It is a local variable of fit(). Return it and assign it at the top level.",
        ),
        ("async def fit():\n    for model in []: pass\n", "It is a local variable of fit()"),
        ("class A:\n    def fit(self):\n        with x as model: pass\n", "It is a local variable of fit()"),
        ("def fit():\n    return model\n", ""),
        ("def (", ""),
    ],
)
def test_a_variable_that_is_local_to_a_function_is_said_to_be(source: str, said: str) -> None:
    found = hints.missing_variable_hint("model", JobSpec(kind="train", source=source))
    assert found.startswith(said) if said else found == ""
