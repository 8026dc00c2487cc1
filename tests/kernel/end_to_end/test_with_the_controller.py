"""The kernel's side with the real controller, agent and local engine: what no fake can promise."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path


def cell(shell: Any, text: str) -> Any:
    done = shell.run_cell(text)
    if done.error_in_exec:
        raise done.error_in_exec
    return done


def test_variables_go_to_a_job_and_come_back_cold_and_warm(shared_notebook: Any) -> None:
    shared_notebook.user_ns["cfg"] = {"a": [1, 2]}
    cell(
        shared_notebook,
        "%%train -k 1m --as first --send cfg --receive total,Net --hp n={cfg['a'][1]}\n"
        "import os\nclass Net:\n    depth = int(os.environ['SM_HP_N'])\ntotal = sum(cfg['a'])",
    )
    assert shared_notebook.user_ns["total"] == 3
    assert shared_notebook.user_ns["Net"].depth == 2
    cell(shared_notebook, "%%train -k 1m --as second\npass")
    assert shared_notebook.user_ns["first"].record.why.start == "cold"
    assert shared_notebook.user_ns["second"].record.why.start == "warm"
    assert "Time to first line" in shared_notebook.user_ns["second"].why


def test_a_traceback_of_the_job_has_the_lines_of_the_cell(
    shared_notebook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JobFailed, match=r"ZeroDivisionError: division by zero \(line 4\)"):
        cell(shared_notebook, "%%train \\\n  --name digits\nx = 0\n1 / x")
    shown = capsys.readouterr().out
    assert 'File "<digits>", line 4, in <module>\n    1 / x' in shown
    assert "jupyter_smx" not in shown


def test_outputs_of_a_processing_job_lie_beside_the_notebook_and_go_into_the_next(
    shared_notebook: Any, tmp_path: Path
) -> None:
    cell(
        shared_notebook,
        "%%process -k 1m -o clean=:clean\nfrom pathlib import Path\n"
        "Path('/opt/ml/processing/output/clean/a.txt').write_text('hello')",
    )
    assert (tmp_path / "clean" / "a.txt").read_text() == "hello"
    cell(
        shared_notebook,
        "%%train -k 1m --input train=clean --receive text --as job\nimport os\n"
        "text = open(os.environ['SM_CHANNEL_TRAIN'] + '/a.txt').read()",
    )
    assert shared_notebook.user_ns["text"] == "hello"


def test_a_job_lives_through_the_death_of_its_controller(
    notebook: Any, tmp_path: Path, eventually_blocking: Any
) -> None:
    notebook.user_ns["gate"] = str(tmp_path / "gate")
    os.environ["SMX_WAIT"] = "0"
    try:
        cell(
            notebook,
            "%%train -k 1m --as job --send gate --receive answer\nimport os\nprint('here', flush=True)\n"
            "os.mkfifo(gate)\nanswer = open(gate).read()",
        )
    finally:
        del os.environ["SMX_WAIT"]
    job = notebook.user_ns["job"]
    eventually_blocking((tmp_path / "gate").exists, "the job waits")
    os.kill(autostart.client().controller_info().pid, signal.SIGKILL)
    threading.Thread(target=(tmp_path / "gate").write_text, args=("42",)).start()
    assert job.result(60).answer == "42"
    assert job.logs() == "here\n"
    cell(notebook, "x = answer")
    assert notebook.user_ns["x"] == "42"


def test_a_variable_that_could_not_come_back_says_what_the_job_said(shared_notebook: Any) -> None:
    line = "%%train --receive x,lock,absent --as job --wait"
    cell(shared_notebook, f"{line}\nimport threading\nlock = threading.Lock()\nx = 1")
    received = shared_notebook.user_ns["job"].result(60)
    assert received["x"] == 1
    with pytest.raises(KeyError, match=r"'lock' cannot be pickled \(TypeError: cannot pickle '_thread.lock'"):
        received["lock"]
    with pytest.raises(KeyError, match="'absent' is not defined at the end of the cell"):
        received["absent"]


BESIDE = """
import asyncio
import jupyter_smx as smx

class NoisyError(Exception):
    pass

FACTOR = 3

class Grid:
    def __init__(self, size):
        self.size = size

    @smx.remote(keep_alive="1m")
    def larger(self):
        return Grid(self.size * FACTOR)

@smx.remote(keep_alive="1m")
def scaled(number):
    return number * FACTOR

@smx.remote(keep_alive="1m")
async def refuse(reason):
    await asyncio.sleep(0)
    raise NoisyError(reason, FACTOR)
"""


def test_functions_of_a_module_that_no_job_can_import_run_there_and_raise_their_own_class_here(
    shared_notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_beside.py").write_text(BESIDE)
    monkeypatch.syspath_prepend(tmp_path)
    beside = importlib.import_module("lying_beside")
    try:
        assert beside.scaled(14) == 42
        before = {name: vars(beside.Grid)[name] for name in ("__init__", "larger")}
        larger = beside.Grid(2).larger()
        assert (type(larger), larger.size) == (beside.Grid, 6)
        assert {name: vars(beside.Grid)[name] for name in before} == before  # no copy of the job's was written in
        with pytest.raises(beside.NoisyError) as raised:
            asyncio.run(beside.refuse("too loud"))
    finally:
        del sys.modules["lying_beside"]
    assert raised.value.args == ("too loud", 3)
    assert f'File "{tmp_path}/lying_beside.py", line 25, in refuse' in str(raised.value.__cause__)
    assert "raise NoisyError(reason, FACTOR)" in str(raised.value.__cause__)
    newest = autostart.client().jobs(1)[0]
    assert (newest.base_name, newest.failure_type, newest.failure_line) == ("refuse", "NoisyError", 25)
    cell(shared_notebook, "import jupyter_smx as smx\ndef half(x):\n    return x / div\ndiv = 2")
    cell(shared_notebook, "answer = smx.remote(half, keep_alive='1m')(9)")
    assert shared_notebook.user_ns["answer"] == 4.5


def test_what_a_job_imported_is_ready_for_the_next_one(shared_notebook: Any, eventually_blocking: Any) -> None:
    cell(
        shared_notebook,
        "%%train --keep-alive 5m --as first --wait\nimport importlib\nimportlib.import_module('sqlalchemy')",
    )
    client = autostart.client()
    eventually_blocking(lambda: "sqlalchemy" in client.pools()[0].preloaded, "the import", within=30)
    client.close()
    check = "import sys\nthere = 'sqlalchemy' in sys.modules\nimport sqlalchemy"
    cell(shared_notebook, f"%%train --keep-alive 5m --receive there --as second --wait\n{check}")
    assert shared_notebook.user_ns["second"]["there"] is True
    assert "Already imported: sqlalchemy (about " in shared_notebook.user_ns["second"].why


def test_a_script_has_the_contract_that_the_line_names_and_a_cache_where_it_keeps_its_hosts(
    shared_notebook: Any,
) -> None:
    code = (
        "import os, sys\nfound = [os.path.basename(os.getcwd()), sys.argv, "
        "'SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY' in os.environ]"
    )
    cell(shared_notebook, f"%%train --hp b=true --hp a=1 --contract v3 --receive found --wait\n{code}")
    assert shared_notebook.user_ns["found"] == ["code", ["train.py", "--b", "true", "--a", "1"], False]
    cell(shared_notebook, f"%%train -k 1m --hp b=true --hp a=1 --receive found --wait\n{code}")
    assert shared_notebook.user_ns["found"] == ["code", ["train.py", "-a", "1", "-b", "True"], True]
    with pytest.raises(ValidationError, match="'v4' does not exist"):
        cell(shared_notebook, "%%train --contract v4\npass")


def test_the_kind_of_a_channels_content_stands_in_the_file_of_the_job(shared_notebook: Any, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    cell(
        shared_notebook,
        "%%train --input train=table,content_type=text/csv --receive found --wait\nimport json, os\n"
        "found = json.load(open(os.environ['SM_INPUT_CONFIG_DIR'] + '/inputdataconfig.json'))['train']",
    )
    assert shared_notebook.user_ns["found"]["ContentType"] == "text/csv"
