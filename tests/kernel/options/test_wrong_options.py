"""A wrong option gets one kind of sentence, in the spelling of a line, a keyword, or a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError
from traitlets.config import Config

import jupyter_smx as smx
from jupyter_smx import cli
from jupyter_smx.cli.conventions import USAGE_ERROR
from jupyter_smx.kernel.api import session
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.options.spelling import respell
from jupyter_smx.model.options.table import TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_controller import ScriptedController

pytestmark = pytest.mark.usefixtures("front_end")

WITH_EXAMPLE = [option for option in TABLE if option.example and option.is_keyword]
SOON = "is not a duration. A duration is a number of seconds"
MANY = "is not a number of retries. It is a whole number from 0"
NONE = "is not an option."
ARGUMENTS = "not for training jobs. SageMaker passes hyperparameters to a training script"
CASES = [
    ("--keep-alive soon", {"keep_alive": "soon"}, "--keep-alive: 'soon'", "keep_alive='soon'", SOON),
    ("--retries many", {"retries": "many"}, "--retries: 'many'", "retries='many'", MANY),
    ("--contract v4", {"contract": "v4"}, "--contract: 'v4'", "contract='v4'", "does not exist. It is one of v2, v3"),
    ("--keep-alve 5m", {"keep_alve": "5m"}, "%%train: --keep-alve", "smx.train: keep_alve", f"{NONE} Did you mean"),
    ("--zzz 5m", {"zzz": "5m"}, "%%train: --zzz", "smx.train: zzz", NONE),
    ("--arg x", {"arguments": ["x"]}, "--arg is", "arguments= is", ARGUMENTS),
]


@pytest.mark.parametrize(("line", "keywords", "typed", "named", "rest"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.usefixtures("controller")
def test_a_magic_and_a_function_refuse_it_alike(
    shell: Any, line: str, keywords: dict[str, Any], typed: str, named: str, rest: str
) -> None:
    refused = shell.run_cell(f"%%train {line}\npass").error_in_exec
    assert rest in str(refused)
    assert str(refused).startswith(typed)
    with pytest.raises(SmxError) as error:
        smx.train("pass", **keywords)
    assert rest in str(error.value)
    assert str(error.value).startswith(named)
    assert smx.jobs() == ()


@pytest.mark.parametrize("line", [case[0] for case in CASES])
def test_so_does_the_command(
    controller: ScriptedController, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (tmp_path / "script.py").write_text("pass\n")
    assert cli.main(["run", str(tmp_path / "script.py"), *line.split()]) == USAGE_ERROR
    rest = next(case[4] for case in CASES if case[0] == line)
    assert rest in capsys.readouterr().err
    assert controller.jobs == {}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%%train -k 1m --keep-alive 2m", "--keep-alive is given twice: 1m and 2m. Use it once. Remove one."),
        ("%%train --spot --spot", "--spot is given twice. Remove one."),
        ("%%process --spot", "--spot is not for processing jobs. As on SageMaker, spot"),
        ("%smx config keep_alive=1m keep_alive=2m", "keep_alive is given twice: 1m and 2m. Use it once."),
        ("%smx config keep_alive=soon", "keep_alive='soon' is not a duration."),
        ("%smx config keep_alve=1m", "keep_alve is not a setting with a default."),
        ("%smx config spot=True", "spot is not a setting with a default."),
    ],
)
def test_so_do_other_places(shell: Any, controller: ScriptedController, line: str, sentence: str) -> None:
    refused = shell.run_cell(f"{line}\npass" if line.startswith("%%") else line).error_in_exec
    assert sentence in str(refused)
    assert shell.run_cell("%%train\npass").success
    assert [job.spec.keep_alive for job in controller.jobs.values()] == [None]


def load(**traits: Any) -> InteractiveShell:
    session.close_session()
    shell = InteractiveShell(config=Config({"SmxMagics": traits, "HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "jupyter_smx")
    return shell


@pytest.mark.usefixtures("shell")
def test_a_configuration_file_is_checked_when_the_magics_load(controller: ScriptedController) -> None:
    with pytest.raises(TraitError, match=r"^c\.SmxMagics\.keep_alive='soon' is not a duration\. A duration is"):
        load(keep_alive="soon")
    with pytest.raises(TraitError, match=r"^c\.SmxMagics\.retries='many' is not a number of retries"):
        load(retries="many")
    with pytest.raises(TraitError, match="keep_alive"):
        load(keep_alive=[1])
    with pytest.warns(UserWarning, match="Config option `keep_alve` not recognized.*`keep_alive`"):
        load(keep_alve="5m")
    assert load(keep_alive=120, max_wait="1h", max_run="1h").run_cell("%%process\npass").success
    specs = [job.spec for job in controller.jobs.values()]
    assert [(spec.keep_alive, spec.max_run, spec.max_wait) for spec in specs] == [(120, 3600, 0)]


@pytest.mark.parametrize(
    ("message", "keyword", "configuration"),
    [
        ("--max-run: 5 is not a duration.", "max_run=5 is not a duration.", "c.SmxMagics.max_run=5 is not a duration."),
        ("--hp lr: 'x' is no.", "hyperparameters['lr']: 'x' is no.", "c.SmxMagics.hyperparameters['lr']: 'x' is no."),
        ("Add --spot or --max-run.", "Add spot=True or max_run=.", "Add c.SmxMagics.spot or c.SmxMagics.max_run."),
        ("Use --network=none of docker.", "Use --network=none of docker.", "Use --network=none of docker."),
    ],
)  # fmt: skip
def test_a_sentence_is_respelled(message: str, keyword: str, configuration: str) -> None:
    assert respell(SmxError(message), "keyword").message == keyword
    assert respell(SmxError(message), "configuration").message == configuration
    assert respell(SmxError(message), "line").message == message


@pytest.mark.parametrize(
    ("message", "keyword"),
    [
        ("Run a file with --entry-point FILE.", "Run a file with entry_point=FILE."),
        ("Add --keep-alive 10m.", "Add keep_alive='10m'."),
        ("Use --instance-count 1, or an --engine with more.", "Use instance_count=1, or an engine= with more."),
        ("Use --engine local.", "Use engine='local'."),
        ("Its path starts there: --entry-point t.py.", "Its path starts there: entry_point='t.py'."),
        ("Add --source-dir .", "Add source_dir='.'"),
        ("Add --send table", "Add send=['table']"),
        ("Pass --source-dir . --entry-point tool.", "Pass source_dir='.' entry_point='tool'."),
        ("--distribution mpi: variables cannot be sent.", "distribution='mpi': variables cannot be sent."),
        ("--python uv:a: no such package.", "python='uv:a': no such package."),
        ("They cannot read x (--input train).", "They cannot read x (inputs['train'])."),
        ("Or --hp lr=nan or --hp lr=inf.", "Or hyperparameters={'lr': 'nan'} or hyperparameters={'lr': 'inf'}."),
        ("Use --hp a=[1] --hp b=[2,3] --sweep.", "Use hyperparameters={'a': [1], 'b': [2,3]} sweep=True."),
        ("Leave it out, or use %%process.", "Leave it out, or use smx.process."),
    ],
)
def test_a_value_is_written_as_in_a_call(message: str, keyword: str) -> None:
    assert respell(SmxError(message), "keyword").message == keyword
    assert respell(SmxError("x", rule=message), "keyword").rule == keyword
    assert respell(SmxError("x", cure=message), "keyword").cure == keyword


@pytest.mark.parametrize(
    "option", [option for option in TABLE if option.example and option.is_keyword], ids=lambda option: option.name
)
def test_an_example_is_one_that_can_be_written_in_python(option: Any) -> None:
    cure = f"For example {option.spelling} {option.example}."
    respelled = respell(SmxError("x", cure=cure), "keyword").cure
    assert respelled.startswith(f"For example {option.name}=")
    compile(f"call({respelled.removeprefix('For example ').removesuffix('.')})", "cure", "eval")
