"""A new plain option is declared once: a copy of the package with a made-up one has it everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jupyter_smx

PACKAGE = Path(jupyter_smx.__file__).parent
ROW = """
    volume_size: Annotated[
        int | None,
        Option(
            spellings=("-V", "--volume-size"),
            value="number",
            metavar="GIB",
            example="30",
            help="size of each host's volume in GiB",
            keyword_example="30",
            minimum=0,
            maximum=1024,
            counts="of GiB",
            field="volume_size",
            target="engine",
            kind_rule="",
            label="volume size",
            configurable=True,
            sagemaker=SageMakerNames(
                training_api="ResourceConfig.VolumeSizeInGB",
                processing_api="ProcessingResources.ClusterConfig.VolumeSizeInGB",
                estimator="volume_size",
                processor="volume_size_in_gb",
                trainer="compute:Compute.volume_size_in_gb",
            ),
        ),
    ]
"""
PROGRAM = """
import inspect
import json
import sys
from pathlib import Path
sys.path.insert(0, DOCS)
import smx_reference
from IPython.core.interactiveshell import InteractiveShell
import jupyter_smx as smx
from jupyter_smx.cli.main import SUBCOMMANDS, parser_of
from jupyter_smx.kernel.magics.completion import complete_line
from jupyter_smx.kernel.magics.magics import SmxMagics
from jupyter_smx.kernel.options import defaults, keyword_check, line_parser
from jupyter_smx.kernel.request.builders import request_from_keywords, request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.kernel.sagemaker import estimator_call, model_trainer
from jupyter_smx.kernel.sagemaker.describe import LocalContext, description
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.convert import check_fields
from jupyter_smx.model.options.table import TrainOptions
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.records.job import Job
from msgspec.structs import replace

here = SubmissionContext(python=sys.executable, python_version="3.11", folder=Path("/"))
def spec_of(kind, line):
    return request_from_options(kind, line_parser.parse(kind, line), {}, Path("/")).build_spec("pass", 0, here, 0.0)
def refusal(act):
    try:
        act()
    except ValidationError as error:
        return str(error)
def record(spec):
    return Job(id="a" * 12, name="fit-aaaaaa", spec=spec, created_at=1e9)
spec, plain = spec_of("train", "-V 30"), spec_of("train", "")
processing = spec_of("process", "--volume-size=30")
keywords = request_from_keywords("train", {"volume_size": 30}, (), Path("/")).build_spec("pass", 0, here, 0.0)
where = LocalContext("us-east-1", Path("/jobs"))
print(json.dumps({
    "line": [spec.volume_size, processing.volume_size, plain.volume_size],
    "keyword": keywords.volume_size,
    "signature": repr(inspect.signature(smx.train).parameters["volume_size"].default),
    "docstring": ":param volume_size: size of each host" in smx.train.__doc__,
    "types": "volume_size" in TrainOptions.__annotations__,
    "wrong type": refusal(lambda: smx.train("pass", volume_size="many")),
    "twice": refusal(lambda: line_parser.parse("train", "-V 1 -V 2")),
    "near": refusal(lambda: line_parser.parse("train", "--volume-sze 1")),
    "near keyword": refusal(lambda: smx.train("pass", volume_sze=1)),
    "request check": refusal(lambda: check_fields(replace(spec, volume_size=2000))),
    "completion": complete_line("%train --vol", "--vol", "local"),
    "manual": "--volume-size GIB" in SmxMagics.train.__doc__,
    "command line": "--volume-size" in parser_of(SUBCOMMANDS["run"]).format_help(),
    "reference": "`--volume-size GIB`" in smx_reference.magic_options(""),
    "configuration": defaults.defaults_for_line("train", {"volume_size": "5"}, {}),
    "trait": SmxMagics.class_trait_names(config=True),
    "describe": [description(record(one), where) for one in (spec, processing)],
    "compare": compare(record(plain), record(spec)).sentence,
    "export": estimator_call.program(record(spec), "train.py", alone=True, requirements=False)
        + estimator_call.program(record(processing), "train.py", alone=True, requirements=False)
        + model_trainer.trainer_program(record(spec), "train.py", requirements=False),
}, default=str))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Copy the package, add one entry and one field, and ask every place for the option."""
    folder = tmp_path_factory.mktemp("copy")
    copy = folder / "jupyter_smx"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("labextension", "__pycache__"))
    add(copy / "model/options/host_options.py", "\n\nclass DataOptions", ROW)
    add(copy / "model/spec/job_spec.py", "    max_run: int = DAY\n", "    volume_size: int = 0\n")
    docs = PACKAGE.parent / "docs/_ext"
    result = subprocess.run(
        [sys.executable, "-c", f"DOCS = {os.fspath(docs)!r}\n{PROGRAM}"],
        env={**os.environ, "PYTHONPATH": os.fspath(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def add(path: Path, before: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(before) == 1
    path.write_text(source.replace(before, f"{text}{before}"), encoding="utf-8")


@pytest.mark.processes
def test_the_magics_the_command_line_and_python_take_it(found: Any) -> None:
    assert found["line"] == [30, 30, 0]
    assert found["keyword"] == 30
    assert (found["signature"], found["docstring"], found["types"]) == ("0", True, True)
    assert found["command line"]


@pytest.mark.processes
def test_wrong_values_are_refused_in_the_spelling_of_their_place(found: Any) -> None:
    assert found["twice"].startswith("--volume-size is given twice: 1 and 2.")
    assert "Did you mean --volume-size" in found["near"]
    assert found["near keyword"] == "smx.train: volume_sze is not an option. Did you mean volume_size or shm_size?"
    assert found["wrong type"].startswith("volume_size='many' is not a number of GiB. It is a whole number from 0")
    assert found["request check"].startswith("--volume-size: 2000. It is a whole number from 0 to 1024.")


@pytest.mark.processes
def test_help_completion_reference_and_configuration_have_it(found: Any) -> None:
    assert found["completion"] == ["--volume-size"]
    assert (found["manual"], found["reference"]) == (True, True)
    assert found["configuration"] == {"volume_size": ["5"]}
    assert "volume_size" in found["trait"]


@pytest.mark.processes
def test_describe_compare_and_export_show_it(found: Any) -> None:
    training, processing = found["describe"]
    assert training["ResourceConfig"]["VolumeSizeInGB"] == 30
    assert processing["ProcessingResources"]["ClusterConfig"]["VolumeSizeInGB"] == 30
    assert found["compare"] == "No differences except option volume size (new: 30)."
    for line in ("        volume_size=30,\n", "        volume_size_in_gb=30,\n", "Compute(", "volume_size_in_gb=30)"):
        assert line in found["export"]
