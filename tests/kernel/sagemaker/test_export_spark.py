"""A job on a Spark cluster as a call of SageMaker's: the processor for it, and modules that travel with its script."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from exported_jobs import TYPE, job, packed, run

from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.distribution import Distribution

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SPARK = Distribution(runner="pyspark")
CONF = Channel(name="conf", source="s3://other/conf/")


def test_it_becomes_a_processor_of_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = job(kind="process", instance_groups=(TYPE,), distribution=SPARK, arguments=("--day", "1"), channels=(CONF,))
    made = export(wish, tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    found = recorder.of("PySparkProcessor")
    assert {name: found[name] for name in ("image_uri", "instance_type", "instance_count")} == {
        "image_uri": "image",
        "instance_type": "ml.m5.xlarge",
        "instance_count": 2,
    }
    asked = recorder.of("PySparkProcessor.run")
    (conf,) = asked.pop("inputs")
    assert conf.asked["destination"] == "/opt/ml/processing/input/conf", "where SageMaker's containers look for it"
    assert asked == {"submit_app": f"{made.folder}/code/process.py", "arguments": ["--day", "1"]}


def test_modules_beside_the_script_reach_the_other_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    source = packed(tmp_path, etl="import helper\n", helper="X = 1\n")
    wish = job(kind="process", source="import helper\n", source_dir=source, entry_point="etl.py", distribution=SPARK)
    made = export(wish, tmp_path / "out")
    asked = run(tmp_path / "out", monkeypatch).of("PySparkProcessor.run")
    assert asked["submit_app"] == f"{made.folder}/code/etl.py"
    (path,) = asked["submit_py_files"]
    with zipfile.ZipFile(path) as found:
        assert {"etl.py", "helper.py"} <= set(found.namelist())
