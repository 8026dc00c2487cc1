"""Folders of code through a real controller, a real agent and the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from projects import TRAIN, project, run

import jupyter_smx as smx
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.rerun_spec import source_archive
from jupyter_smx.testing.eventually import eventually_blocking


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


def test_a_training_script_of_a_folder_runs_with_its_hyperparameters(notebook: Any, tmp_path: Path) -> None:
    project(tmp_path)
    run(
        notebook,
        "%%train --source-dir src --entry-point train.py --hp epochs=3 --hp lr=0.5 -k 1m --as job --receive result\n"
        "# the code is in src/train.py\n",
    )
    epochs, lr, name, where, notes = notebook.user_ns["result"]
    assert (epochs, lr, name, notes) == (3, 0.5, "first", "notes")
    assert where.endswith("/ml/code") or where == "/opt/ml/code"
    record = notebook.user_ns["job"].record
    assert (record.spec.source, record.spec.entry_point) == (TRAIN, "train.py")
    assert (record.spec.source_dir.files, record.spec.source_dir.folder) == (3, str(tmp_path / "src"))
    assert record.spec.imports == ("argparse", "json", "os", "pathlib")  # helper is not preloaded on a host
    assert "model.tar.gz" in notebook.user_ns["job"].artifacts


def test_an_edit_is_seen_by_the_next_job_on_the_same_warm_host(notebook: Any, tmp_path: Path) -> None:
    src = project(tmp_path)
    line = "%%train --source-dir src --receive name,here -k 5m --as job --wait\n"
    code = (
        "import helper, sys, os\nname, here = helper.NAME, sorted({*os.listdir()} - {'__pycache__'})\n"
        "open('helper.py', 'a').write('junk(')"
    )
    run(notebook, line + code)
    assert (notebook.user_ns["name"], notebook.user_ns["here"]) == (
        "first",
        ["helper.py", "notes.txt", "train.py", "train_cell.py"],
    )
    run(notebook, line + code)  # what the first job wrote into its copy is gone
    assert notebook.user_ns["name"] == "first"
    (src / "helper.py").write_text("NAME = 'second'\n")
    run(notebook, line + code)
    assert notebook.user_ns["name"] == "second"
    assert notebook.user_ns["job"].record.why.start == "warm"
    client = autostart.client()
    (pool,) = client.pools()
    client.close()
    assert "helper" not in pool.preloaded
    with pytest.raises(JobFailed, match="No module named 'helper'"):
        run(notebook, "%%train -k 5m --wait\nimport helper")


def test_a_failure_in_the_folder_names_the_users_own_files(notebook: Any, tmp_path: Path) -> None:
    src = project(tmp_path)
    with pytest.raises(JobFailed, match=r"ValueError: -1 epochs \(train\.py, line 10\)") as raised:
        run(notebook, "%train --source-dir src --entry-point train.py --hp epochs=-1 --wait")
    trace = raised.value.remote_traceback
    assert f'File "{src}/train.py", line 10, in <module>\n    helper.refuse(arguments.epochs)' in trace
    assert f'File "{src}/helper.py", line 4, in refuse' in trace


def test_functions_and_processing_jobs_have_the_folder_beside_them(notebook: Any, tmp_path: Path) -> None:
    project(tmp_path)
    run(
        notebook,
        "import jupyter_smx as smx\n"
        "@smx.remote(source_dir='src', keep_alive='5m')\ndef name():\n    import helper\n    return helper.NAME\n"
        "answer = name()",
    )
    assert notebook.user_ns["answer"] == "first"
    (tmp_path / "clean.py").write_text("import sys\nprint(sys.argv[1:], __name__)")
    job = smx.process(entry_point="clean.py", hyperparameters={"n": 3}, wait=True)
    assert job.logs() == "['-n', '3'] __main__\n"
    assert job.record.spec.entry_point == "clean.py"


def test_a_job_runs_again_with_its_folder_as_it_was(notebook: Any, tmp_path: Path) -> None:
    src = project(tmp_path)
    run(notebook, "%%train --source-dir src --receive name -k 5m --as job --wait\nimport helper\nname = helper.NAME")
    record = notebook.user_ns["job"].record
    (src / "helper.py").write_text("NAME = 'changed'\n")
    # The controller writes the job's own copy after the verdict.
    eventually_blocking(source_archive(record).exists, "the job's own copy of its folder")
    Path(record.spec.source_dir.path).unlink()  # as happens when no job needed it for a day
    again = smx.rerun(notebook.user_ns["job"].id)
    assert again.result(60).name == "first"
