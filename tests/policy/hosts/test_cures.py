"""What cures a failed job: files, modules and names on the notebook's side of the border, as options of that side."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.controller.scheduling import notebook_folder
from jupyter_smx.controller.scheduling.notebook_folder import DiskFolder, find_cure
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.channel import Channel, Payload
from jupyter_smx.model.spec.job_spec import JobSpec, SourceDir
from jupyter_smx.policy.hosts.cures import failure_cure

NO_MODULE = ("ModuleNotFoundError", "No module named 'helper'")
SENT = "send: function cannot be read on this host (ModuleNotFoundError: No module named {!r})."


def a_spec(folder: Path, **fields: Any) -> JobSpec:
    fields = {"kind": "train", "notebook": "n.ipynb", "working_directory": str(folder), "source": "pass"} | fields
    return JobSpec(**fields)


def cure(folder: Path, error: str, message: str, **fields: Any) -> str:
    exception = RemoteException(type=error, message=message, traceback="")
    end = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)
    return failure_cure(a_spec(folder, **fields), end, DiskFolder(str(folder)))


def no_file(path: str) -> str:
    return f"[Errno 2] No such file or directory: {path!r}"


def packed(folder: Path, *ignored: str) -> SourceDir:
    return SourceDir(folder=str(folder), path="/p", sha256="0", files=1, size=1, ignored=ignored)


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
        ("/opt/ml/code/table.csv", "table.csv is in the folder of the notebook"),
        ("data", "Add --input data=data"),
        ("absent.csv", ""),
        ("data/absent.csv", ""),
        ("/opt/ml/input/data/train", ""),
        ("a\0b", ""),
    ],
)
def test_a_file_beside_the_notebook_is_an_input(beside: Path, path: str, said: str) -> None:
    found = cure(beside, "FileNotFoundError", no_file(path))
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("FileNotFoundError", "table.csv not found."),
        ("FileNotFoundError", "No such file or directory (os error 2): table.csv"),
        ("OSError", "Unable to open file (name = 'table.csv', errno = 2)"),
        ("NotFoundError", "table.csv; No such file or directory"),
        ("ValueError", "table.csv does not exist"),
        ("ValueError", "'table.csv' was not found"),
        ("OSError", "cannot open file `table.csv' for reading"),
    ],
)
def test_libraries_name_an_absent_file_in_their_own_ways(beside: Path, error: str, message: str) -> None:
    assert cure(beside, error, message).endswith(
        "Add --input table=table.csv to provide it as /opt/ml/input/data/table."
    )


def test_an_absolute_path_of_this_machine_is_an_input(beside: Path) -> None:
    path = str(beside / "table.csv")
    assert f"{path} exists on this machine but not in the job. Add --input table={path}" in cure(
        beside, "FileNotFoundError", no_file(path)
    )


def test_what_is_in_a_channel_is_named_where_it_is(beside: Path) -> None:
    channel = Channel(name="train", source=str(beside / "data"))
    said = "It is in channel train: /opt/ml/input/data/train/train.csv in the job."
    assert cure(beside, "FileNotFoundError", no_file("data/train.csv"), channels=(channel,)) == said
    one = Channel(name="raw", source=str(beside / "table.csv"))
    found = cure(beside, "FileNotFoundError", no_file("table.csv"), channels=(one,), kind="process")
    assert "/opt/ml/processing/input/raw/table.csv in the job" in found


def test_what_stayed_in_the_folder_of_code_is_said_to(beside: Path) -> None:
    source = packed(beside / "src")
    found = cure(beside, "FileNotFoundError", no_file("lost.csv"), source_dir=source)
    assert f"lost.csv is in {beside}/src but was not sent: .gitignore excludes it" in found
    assert "--input lost=src/lost.csv" in found
    assert "was not sent" in cure(beside, "ModuleNotFoundError", "No module named 'deep'", source_dir=source)


@pytest.mark.parametrize(
    ("error", "message", "word", "ignored"),
    [
        ("FileNotFoundError", no_file("lost.csv"), "lost.csv", "lost.csv"),
        ("FileNotFoundError", no_file("./lost.csv"), "./lost.csv", "lost.csv"),
        ("FileNotFoundError", no_file("/opt/ml/code/lost.csv"), "lost.csv", "lost.csv"),
        ("FileNotFoundError", no_file("kept/deep/a.bin"), "kept/deep/a.bin", "kept/"),
        ("FileNotFoundError", no_file("kept"), "kept", "kept/"),
        ("ValueError", "cannot open file 'lost.csv' for reading", "lost.csv", "lost.csv"),
        ("ModuleNotFoundError", "No module named 'deep'", "deep.py", "deep.py"),
    ],
)
def test_a_file_that_gitignore_kept_out_names_the_option_that_sends_it(
    beside: Path, error: str, message: str, word: str, ignored: str
) -> None:
    (beside / "src" / "kept" / "deep").mkdir(parents=True)
    (beside / "src" / "kept" / "deep" / "a.bin").touch()
    source = packed(beside / "src", "other.csv", ignored)
    said = f"{word} is in {beside}/src but was not sent: .gitignore excludes it. Add "
    assert cure(beside, error, message, source_dir=source) == f"{said}--source-ignore none"
    keyword = cure(beside, error, message, source_dir=source, spelling="keyword")
    assert keyword == f'{said}source_ignore="none"'


def test_a_file_that_was_added_later_is_not_called_ignored(beside: Path) -> None:
    found = cure(beside, "FileNotFoundError", no_file("lost.csv"), source_dir=packed(beside / "src", "lost.csv.bak"))
    assert "--source-ignore" not in found
    assert "--input lost=src/lost.csv" in found


def test_only_files_of_a_folder_were_sent(beside: Path) -> None:
    for folder in (str(beside), ""):
        sent = SourceDir(folder=folder, path="/p", sha256="0", files=1, size=1, is_whole=False)

        def of(error: str, message: str, sent: SourceDir = sent, **fields: Any) -> str:
            return cure(beside, error, message, source_dir=sent, **fields)

        missing = "No module named {!r}".format
        assert (
            of(*NO_MODULE) == "helper is in the folder of the notebook but not in the job. Add --dependency helper.py"
        )
        assert of("ModuleNotFoundError", missing("pkg")).endswith("not in the job. Add --dependency pkg")
        assert of("ModuleNotFoundError", missing("deep")).endswith("Add --dependency src/deep.py")
        assert of(*NO_MODULE, spelling="keyword").endswith('Add dependencies=["helper.py"]')
        assert "Add --input table=table.csv" in of("FileNotFoundError", no_file("table.csv"))
        kept_out = replace(sent, ignored=("pkg/words.txt", "pkg/a.py"))
        found = of("FileNotFoundError", no_file("pkg/words.txt"), kept_out)
        assert found == "pkg/words.txt was not sent: .gitignore excludes it. Add --source-ignore none"
        found = of("ModuleNotFoundError", missing("pkg"), replace(sent, ignored=("pkg/",)))
        assert found == "pkg was not sent: .gitignore excludes it. Add --source-ignore none"


def test_a_module_that_a_dependency_imports_is_sent_as_the_dependency_was(beside: Path) -> None:
    both = replace(packed(beside / "src"), dependencies=("part.py",))
    found = cure(beside, *NO_MODULE, source_dir=both)
    assert found.endswith("but not in the job. Add --dependency helper.py"), "the folder with the script stays"
    assert cure(beside, *NO_MODULE, source_dir=packed(beside / "src")).endswith("Add --source-dir . instead")


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_part_of_a_dependency_is_never_called_absent_from_the_job(beside: Path, is_whole: bool) -> None:
    folder = beside / "src" if is_whole else beside
    sent = replace(packed(folder, "pkg/words.py"), is_whole=is_whole, dependencies=("helper.py", "pkg"))
    for module in ("pkg.lost", "pkg", "helper", "helper.inner"):
        assert cure(beside, "ModuleNotFoundError", f"No module named {module!r}", source_dir=sent) == ""
    found = cure(beside, "ModuleNotFoundError", "No module named 'pkg.words'", source_dir=sent)
    assert found == "pkg/words.py was not sent: .gitignore excludes it. Add --source-ignore none"


def test_requirements_of_the_folder_are_named(beside: Path) -> None:
    (beside / "src" / "requirements.txt").touch()
    error = ("ModuleNotFoundError", "No module named 'nowhere'")
    found = cure(beside, *error, source_dir=packed(beside / "src"))
    listing = f"{beside}/src/requirements.txt"
    assert found == f"{listing} may list it. Add --requirements {listing}"
    assert cure(beside, *error, source_dir=packed(beside / "src"), requirements=("numpy",)) == ""


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
    assert cure(beside, "ModuleNotFoundError", f"No module named {module!r}; 'x' is not a package") == said


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("smdistributed.dataparallel", "Use torchrun with the backend nccl or gloo."),
        ("horovod", "Install it in the job's Python, or use torchrun."),
        ("smdebug", "Remove it: SageMaker's Debugger is not supported here."),
        ("sagemaker_xgboost_container", "Remove what needs it, or run the job in such an image."),
    ],
)
def test_a_module_of_sagemakers_images_is_said_to_be_one(beside: Path, module: str, advice: str) -> None:
    top = module.partition(".")[0]
    found = cure(beside, "ModuleNotFoundError", f"No module named {module!r}")
    assert found == f"{top} is a module of SageMaker's images. {advice}"
    (beside / f"{top}.py").touch()
    assert "--source-dir" in cure(beside, "ModuleNotFoundError", f"No module named {module!r}")


def test_a_call_of_an_older_library_names_its_version(beside: Path) -> None:
    said = "module 'numpy' has no attribute 'float'."
    assert cure(beside, "AttributeError", said).startswith("The script is written for numpy<1.24. Add that line")


def test_without_a_notebook_the_folder_is_named(beside: Path) -> None:
    found = cure(beside, *NO_MODULE, notebook="")
    assert found == f"helper is in {beside} but not in the job. Add --source-dir ."


def test_jobs_made_from_python_read_keyword_arguments(beside: Path) -> None:
    def of_python(error: str, message: str, **fields: Any) -> str:
        return cure(beside, error, message, spelling="keyword", **fields)

    assert of_python(*NO_MODULE).endswith('Add source_dir="."')
    assert of_python("ModuleNotFoundError", "No module named 'deep'").endswith('Add source_dir="src"')
    assert 'Add inputs={"data": "data"} to provide it' in of_python("FileNotFoundError", no_file("data/train.csv"))
    names = {"notebook_names": {"cfg": ""}}
    assert of_python("NameError", "name 'cfg' is not defined", **names).endswith('Add send=["cfg"]')
    (beside / "src" / "requirements.txt").touch()
    found = of_python("ModuleNotFoundError", "No module named 'x'", source_dir=packed(beside / "src"))
    assert found.endswith(f"Add requirements='{beside}/src/requirements.txt'")


def test_a_variable_of_the_notebook_is_sent_and_a_module_imported(tmp_path: Path) -> None:
    names = {"cfg": "", "np": "collections", "os": "os", "sent": "", "get_ipython": ""}
    sent = Payload(path="/p", sha256="0", sizes={"sent": 1})

    def of_name(name: str) -> str:
        return cure(tmp_path, "NameError", f"name {name!r} is not defined", notebook_names=names, send=sent)

    assert of_name("cfg") == "cfg is a notebook variable that was not sent to the job. Add --send cfg"
    assert "Import it in the cell: import collections as np" in of_name("np")
    assert of_name("os").endswith(": import os")
    assert of_name("absent") == of_name("sent") == ""
    assert of_name("get_ipython").startswith("A job is plain Python without IPython")


@pytest.mark.parametrize(
    ("error", "message", "said"),
    [
        ("NameError", "name 'display' is not defined", "display() works in the notebook only"),
        ("NameError", "name 'Out' is not defined", "A job is plain Python"),
        ("AttributeError", "'NoneType' object has no attribute 'run_line_magic'", "Remove what needs get_ipython()"),
        ("AttributeError", "'NoneType' object has no attribute 'shape'", ""),
        ("EOFError", "EOF when reading a line", "A job has no keyboard"),
        ("EOFError", "Ran out of input", ""),
        ("BdbQuit", "", "Remove the breakpoint"),
    ],
)
def test_habits_of_a_notebook_have_a_sentence(tmp_path: Path, error: str, message: str, said: str) -> None:
    found = cure(tmp_path, error, message)
    assert said in found if said else found == ""


@pytest.mark.parametrize("kind", ["KeyError", "ImportError", "UnboundLocalError"])
def test_other_exceptions_are_left_alone(beside: Path, kind: str) -> None:
    assert cure(beside, kind, "'table.csv'") == ""


@pytest.mark.parametrize(
    ("cause", "failure", "said"),
    [
        ("refused", SENT.format("helper"), "helper is in the folder of the notebook but not in the job."),
        (
            "refused",
            SENT.format("far.away"),
            "The job has no module far. Pass the folder of its file with --source-dir",
        ),
        ("refused", "channels: no such file as table.csv", ""),
        ("exit", "Exit Code: 1. cat: table.csv: No such file or directory", "Add --input table=table.csv"),
        ("exit", "Exit Code: 1. /usr/bin/python3: No module named helper", "Add --source-dir ."),
        ("signal", "No module named helper", ""),
    ],
)
def test_sentences_have_a_cure_as_exceptions_have(beside: Path, cause: str, failure: str, said: str) -> None:
    end = HostEnd(host="algo-1", cause=cause, failure=failure)
    found = failure_cure(a_spec(beside), end, DiskFolder(str(beside)))
    assert said in found if said else found == ""


OF_A_SHELL = [
    "/opt/ml/code/train.sh: line 3: foo: command not found",
    "/opt/ml/code/other.sh: line 3: data: command not found",
    "zsh:1: command not found: data",
    "/bin/sh: 1: foo: not found",
    "sh: data: not found",
    "train.sh: 12: data: not found",
    "/usr/bin/env: ‘data’: No such file or directory",
    "env: data: No such file or directory",
]
"""Lines about a program that an image lacks."""
NO_PATH = [
    *OF_A_SHELL,
    "Error: object 'data' not found",
    "could not read / write",
    "data could not be found: run not found",
    "/usr/bin/env: 'python4': No such file or directory",
    "cat: ..: No such file or directory",
    "data: absent.csv: No such file or directory",
    "/opt/ml/code/train.sh: line 3: absent.csv: No such file or directory",
]


@pytest.fixture
def programs(beside: Path) -> Path:
    for name in ("train.sh", "other.sh", "foo", "run/x"):
        path = beside / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return beside


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("said", NO_PATH)
def test_a_program_and_a_word_of_english_are_no_files_of_the_notebook(
    programs: Path, said: str, is_packed: bool
) -> None:
    spec = a_spec(programs, entry_point="train.sh", source_dir=packed(programs) if is_packed else None)
    end = HostEnd(host="algo-1", cause="exit", failure=f"Exit Code: 127. {said}")
    assert failure_cure(spec, end, DiskFolder(str(programs))) == ""


@pytest.mark.parametrize(
    "said",
    [
        "table.csv: No such file or directory",
        "/opt/ml/code/train.sh: line 3: table.csv: No such file or directory",
        "train.sh: 3: cannot open table.csv: No such file",
        "other.sh: can't open 'table.csv'",
        "ls: cannot access 'table.csv': No such file or directory",
        "/bin/sh: 1: foo: not found\ncat: table.csv: No such file or directory",
    ],
)
def test_a_program_names_an_absent_file_behind_its_own_name(programs: Path, said: str) -> None:
    end = HostEnd(host="algo-1", cause="exit", failure=f"Exit Code: 1. {said}")
    found = failure_cure(a_spec(programs, entry_point="train.sh"), end, DiskFolder(str(programs)))
    assert found.startswith("table.csv is in the folder of the notebook but not in the job.")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("KeyError", "'data not found'"),
        ("KeyError", "\"['data'] not found in axis\""),
        ("AttributeError", "column 'data' not found"),
        ("ValueError", "the data was not found"),
        ("HTTPError", "404 Client Error: Not Found: 'data'"),
        ("ValueError", "column 'data' does not exist"),
        ("OSError", "could not read / write"),
        ("FileNotFoundError", no_file("/usr/bin/env")),
        ("FileNotFoundError", no_file("/home")),
        ("FileNotFoundError", no_file("/")),
        ("FileNotFoundError", no_file("../..")),
        ("FileNotFoundError", no_file("train.sh")),
        ("FileNotFoundError", no_file("/opt/ml/code/train.sh")),
    ],
)
def test_what_each_job_has_and_what_is_no_path_is_no_input(programs: Path, error: str, message: str) -> None:
    assert cure(programs, error, message, entry_point="train.sh") == ""


@settings(deadline=None)
@given(kind=st.sampled_from(["FileNotFoundError", "ModuleNotFoundError", "NameError"]), message=st.text())
def test_no_message_breaks_it(kind: str, message: str) -> None:
    for text in (message, no_file(message), f"No module named '{message}'", f"name '{message}' is not defined"):
        assert isinstance(cure(Path("/nowhere"), kind, text, notebook_names={message: ""}), str)


async def test_a_disk_that_does_not_answer_delays_no_end(monkeypatch: pytest.MonkeyPatch, beside: Path) -> None:
    monkeypatch.setattr(notebook_folder, "TIMEOUT", 0.01)
    answered = threading.Event()
    monkeypatch.setattr(DiskFolder, "has_module", lambda *_: answered.wait(30))
    exception = RemoteException(type=NO_MODULE[0], message=NO_MODULE[1], traceback="")
    end = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)
    try:
        assert await find_cure(a_spec(beside), [end]) == ""
    finally:
        answered.set()
    monkeypatch.setattr(notebook_folder, "TIMEOUT", 60.0)
    monkeypatch.undo()
    assert (await find_cure(a_spec(beside), [end])).endswith("Add --source-dir .")
    assert await asyncio.wait_for(find_cure(a_spec(beside), []), 60) == ""
