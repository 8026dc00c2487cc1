from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import cli
from jupyter_smx.cli.conventions import EXIT_CODES
from jupyter_smx.cli.main import SUBCOMMANDS
from jupyter_smx.model.options.table import TABLE as OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

WRONG = [
    ("pols", "'pols' is not a subcommand. Did you mean pools"),
    ("zzz", "There are run, plan, jobs, logs"),
    ("--jsn jobs", "'--jsn' is not an option. Did you mean --json"),
    ("jobs --stauts Failed", "jobs: --stauts is not an option. Did you mean --status?"),
    ("jobs -x", "-x is not an option"),
    ("jobs --status", "--status needs a value: STATUS"),
    ("jobs --status complted", "'complted' is not one of its values. It is one of InProgress"),
    ("jobs --status complted", "Did you mean Completed"),
    ("jobs --limit 0", "'0' is not a number of jobs. It is a whole number from 1 to 1000."),
    ("jobs --limit many", "'many' is not a number of jobs"),
    ("jobs now", "'now' is an unexpected argument"),
    ("jobs --json=1", "--json takes no value"),
    ("stop", "required: JOB. Usage: jupyter smx stop JOB [--abandon]."),
    ("rerun", "required: JOB"),
    ("extend m5", "required: DURATION. Usage: jupyter smx extend POOL DURATION."),
    ("extend m5 soon", "--duration: 'soon' is not a duration"),
    ("release", "required: POOL"),
    ("run", "SCRIPT is missing"),
    ("run hello.py two.py", "'two.py' is an unexpected argument. Usage: jupyter smx run SCRIPT [options]."),
    ("run hello.py keep-alive 5m", "'keep-alive' is an unexpected argument. Did you mean --keep-alive"),
    ("run hello.py --instance-typ local", "Did you mean --instance-type"),
    ("run hello.py -t", "--instance-type needs a value: TYPE. For example --instance-type ml.m5.xlarge."),
    ("run hello.py -k 1m -k 2m", "--keep-alive is given twice"),
    ("run hello.py -k soon", "'soon' is not a duration"),
    ("run hello.py -n 0", "'0' is not a number of hosts"),
    ("run hello.py --hp lr", "'lr' has no ="),
    ("run hello.py --env 1=2", "'1' is not a valid environment variable name"),
    ("run hello.py --name a/b", "'a/b' is not a valid job name"),
    ("run hello.py --kind trian", "--kind: 'trian' is not one of its values"),
    ("run hello.py --send cfg", "--send needs the variables of a notebook"),
    ("run hello.py --as job", "--as needs the variables of a notebook"),
    ("run hello.py --wait --detach", "--wait cannot be combined with --detach"),
    (
        "run hallo.py",
        "SCRIPT: hallo.py does not exist. A job runs a script, of Python or of a shell, which is read here.",
    ),
    ("run hallo.py", "read here. Did you mean hello.py"),
    ("run hallo.sh", "SCRIPT: hallo.sh does not exist."),
    ("run helo.sh --source-dir src", "in that folder. Did you mean hello.sh?"),
    ("run src/helo.sh --source-dir src", "in that folder. Did you mean hello.sh?"),
    ("run src/hello.sh --source-dir src", "Its path starts at --source-dir: hello.sh."),
    ("run hello.py --source-dir hello.py", "leave --source-dir out: jupyter smx run hello.py."),
    ("run hello.py --group a:local:0", "It is a whole number from 1. For example --group a:local:1."),
    ("run hello.py --metric x", "The form is NAME=REGEX. For example --metric x=REGEX."),
    ("run --entry-point book.ipynb", "--entry-point: book.ipynb is a notebook."),
    ("run nowhere/hello.py", "There is no folder nowhere."),
    ("run .", "SCRIPT: . cannot be read: Is a directory."),
    ("run .", "Name a file in it."),
    ("run book.ipynb", "SCRIPT: book.ipynb is a notebook."),
    ("run book.ipynb", "`jupyter nbconvert --to script book.ipynb` converts it to a script."),
    ("run empty.py", "SCRIPT: empty.py is empty."),
    ("run empty.py", "Write the code of the job into it, and save it."),
    ("run bytes.py", "SCRIPT: bytes.py is not text"),
    ("run bytes.py", "Save it as UTF-8, or declare its encoding."),
    ("run null.py", "null bytes"),
    ("run broken.py", "SyntaxError"),
    ("plan broken.py", "Nothing was started."),
    (f"jobs --limit {'9' * 5000}", "9… is not a number of jobs. It is a whole number from 1 to 1000."),
    (
        f"run hello.py --retries {'9' * 5000}",
        "9… is not a number of retries. It is a whole number from 0 to 999999999.",
    ),
    (f"run hello.py -n {'9' * 5000}", "9… is not a number of hosts. It is a whole number from 1 to 999999999."),
    (f"run hello.py --sweep --hp n=[1] --max-concurrent {'9' * 5000}", "9… is not a number of tasks."),
    ("completion cmd", "SHELL: 'cmd' is not one of its values"),
]

WHOLE = [
    "run hallo.py",
    "run hallo.sh",
    "run empty.py",
    "run bytes.py",
    "run .",
    "run book.ipynb",
    "run hello.py --source-dir nowhere",
    "run --source-dir . --entry-point hallo.py",
    "run --entry-point data.csv",
    "run hello.py --input tr/ain=hello.py",
    "run hello.py --input train=",
    "run hello.py --input =hello.py",
    "run hello.py --env 1=2",
    "run hello.py --hp lr",
    "run hello.py -n 0",
    "run hello.py --group a:local:1 --group a:local:1",
    "run hello.py --group a:local:1 -n 2",
    "run hello.py --metric a=(",
    "run hello.py --send cfg",
    "run hello.py --wait --detach",
]
"""Each tells of a field and of its value, of the rule that it breaks, and of a cure."""


@pytest.fixture
def folder(no_controller: Path) -> Path:
    files = {
        "hello.py": b"print('hello')\n",
        "empty.py": b" \n",
        "bytes.py": b"x = '\xff'\n",
        "null.py": b"x = 1\0\n",
        "broken.py": b"def f(:\n",
    }
    for name, content in files.items():
        (no_controller.parent / name).write_bytes(content)
    (no_controller.parent / "src").mkdir()
    (no_controller.parent / "src" / "hello.sh").write_text("echo hello\n")
    return no_controller


@pytest.mark.parametrize(("line", "sentence"), WRONG)
def test_wrong_use_is_one_sentence_and_starts_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, sentence: str
) -> None:
    assert cli.main(line.split()) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
    assert not folder.exists()


@pytest.mark.parametrize(("line", "sentence"), WRONG[3:12:4] + WRONG[22:36:4])
def test_with_json_wrong_use_is_an_error_body(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, sentence: str
) -> None:
    assert cli.main([*line.split(), "--json"]) == 2
    said = capsys.readouterr()
    body = json.loads(said.err)
    assert body["code"] == "ValidationException"
    assert set(body) == {"code", "message", "field", "value", "rule", "cure", "transient"}
    assert sentence in " ".join(part for part in (body["message"], body["rule"], body["cure"]) if part)
    assert said.out == ""
    assert not folder.exists()


@pytest.mark.parametrize("line", WHOLE)
def test_what_is_wrong_with_a_value_is_said_whole(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert cli.main([*line.split(), "--json"]) == 2
    body = json.loads(capsys.readouterr().err)
    assert all(body[part] for part in ("message", "field", "value", "rule", "cure")), body
    assert not folder.exists()


def test_a_script_whose_name_begins_with_a_dash_stands_after_two(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "-x.py").write_text("def f(:\n")
    assert cli.main(["run", "--", "-x.py"]) == 2
    assert "SyntaxError" in capsys.readouterr().err


@pytest.mark.usefixtures("no_controller")
@pytest.mark.parametrize("words", [[], ["help"], ["-h"], ["--help"], ["--help", "jobs"]])
def test_the_manual_lists_the_subcommands_and_the_exit_codes(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert all(f"jupyter smx {name}" in shown for name in SUBCOMMANDS)
    assert all(meaning in shown for meaning in EXIT_CODES.values())


@pytest.mark.usefixtures("no_controller")
@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_has_a_page(capsys: pytest.CaptureFixture[str], name: str) -> None:
    for spelling in ("-h", "--help"):
        assert cli.main([name, spelling]) == 0
        shown = capsys.readouterr().out
        assert f"jupyter smx {name}" in shown
        assert "--json" in shown


@pytest.mark.usefixtures("no_controller")
@pytest.mark.parametrize("name", ["run", "plan"])
def test_a_script_has_all_options_of_the_magics(capsys: pytest.CaptureFixture[str], name: str) -> None:
    cli.main([name, "--help"])
    shown = capsys.readouterr().out
    assert [row.spellings for row in OPTIONS if not all(spelling in shown for spelling in row.spellings)] == []


@pytest.mark.usefixtures("no_controller")
def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    text = capsys.readouterr().out
    assert cli.main(["--version", "--json"]) == 0
    assert text == f"jupyter smx {json.loads(capsys.readouterr().out)['version']}\n"


def test_a_folder_that_was_deleted_under_the_shell_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder.parent / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert cli.main(["run", str(folder.parent / "hello.py")]) == 2
    assert "The current folder was deleted or moved." in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize("line", ["jobs", "logs", "stop x", "why", "pools", "release x", "run hello.py", "doctor"])
def test_without_a_controller_the_code_is_four(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    folder.write_text("a file where the data folder should be")
    assert cli.main(line.split()) == 4
    said = capsys.readouterr()
    assert f"The controller could not be started, because {folder} cannot be used: it is a file." in said.err + said.out
    assert "or set JUPYTER_SMX_DATA_DIR to another folder." in said.err + said.out
    assert cli.main([*line.split(), "--json"]) == 4
    said = capsys.readouterr()
    if line == "doctor":  # its page is what it found, and that is an answer
        assert "could not be started" in json.loads(said.out)["controller"]
    else:
        assert json.loads(said.err)["code"] == "ServiceUnavailable"


@pytest.mark.usefixtures("no_controller")
def test_completion_without_its_package_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.delitem(sys.modules, "argcomplete.shell_integration", raising=False)
    assert cli.main(["completion"]) == 1
    assert "pip install 'jupyter-smx[cli]'" in capsys.readouterr().err
