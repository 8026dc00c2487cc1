"""What SageMaker's SDK takes as code, through a real controller, a real agent and the local engine."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.failures.exceptions import JobFailed

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--cfg")
parser.add_argument("--version")
parser.add_argument("--model_dir")
found = parser.parse_args()
print(json.dumps([json.loads(found.cfg), found.version, found.model_dir, os.environ["TRAINING_JOB_NAME"]]))
"""


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


@pytest.mark.usefixtures("notebook")
def test_text_and_the_name_of_the_job_reach_the_script(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(CONFIG)
    texts = {"cfg": json.dumps({"lr": 0.1}), "version": "1.10", "model_dir": "s3://b/{job_name}/model"}
    job = smx.train(entry_point="t.py", hyperparameters=texts, job_name="Exact-1", keep_alive="1m", wait=True)
    assert job.logs() == '[{"lr": 0.1}, "1.10", "s3://b/Exact-1/model", "Exact-1"]\n'
    again = smx.rerun(job).wait()
    assert json.loads(again.logs())[2:] == [f"s3://b/{again.name}/model", again.name]


@pytest.mark.usefixtures("notebook")
def test_dependencies_lie_beside_a_script_alone(tmp_path: Path) -> None:
    (tmp_path / "shared" / "common").mkdir(parents=True)
    (tmp_path / "shared" / "common" / "tools.py").write_text("NAME = 'common'\n")
    (tmp_path / "shared" / "words.txt").write_text("words")
    (tmp_path / "t.py").write_text("from common import tools\nprint(tools.NAME, open('words.txt').read())\n")
    job = smx.train(entry_point="t.py", dependencies=["shared/common", "shared/words.txt"], wait=True)
    assert job.logs() == "common words\n"


@pytest.mark.usefixtures("notebook")
def test_a_failure_in_an_archive_names_the_archive(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import part\npart.fail()\n")
    (tmp_path / "part.py").write_text("def fail():\n    raise ValueError('no')\n")
    with tarfile.open(tmp_path / "code.tar.gz", "w:gz") as archive:
        for name in ("t.py", "part.py"):
            archive.add(tmp_path / name, name)
    with pytest.raises(JobFailed, match="ValueError: no") as raised:
        smx.train(entry_point="t.py", source_dir="code.tar.gz", wait=True)
    assert f'File "{tmp_path}/code.tar.gz/part.py", line 2, in fail' in raised.value.remote_traceback


@pytest.mark.usefixtures("notebook")
def test_a_command_runs_a_script_that_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "count.awk").write_text("BEGIN { for (i = 1; i < ARGC; i++) print i, ARGV[i]; exit }\n")
    job = smx.process(entry_point="count.awk", command=["awk", "-f"], arguments=["two"], wait=True)
    assert job.logs() == "1 two\n"
