"""What a host says that can have no part in a Spark cluster, and that nothing of one is left there."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from source_archives import packed

from jupyter_smx.agent.contract import distribution, scriptmode
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.launchers import spark
from jupyter_smx.agent.paths import HostInfo
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.skipif(not process.LINUX, reason="a cluster is on Linux only")

SPARK = {"pyspark/__init__.py": "", "pyspark/bin/spark-class": "", "bin/java": ""}
"""As much of Spark and of Java as is looked for before anything is started."""


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> spark.HostPart:
    lay(tmp_path / "machine", SPARK)
    for name in ("ml/processing/input/conf", "job", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "machine"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "machine"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    place = HostInfo("algo-1", ["algo-1"], [], "g", "local", 1, 0, base=str(tmp_path / "ml"))
    spec = scriptmode.complete({"source": "pass", "kind": "process", "distribution": "pyspark"})
    found = distribution.host_distribution(spec, place)
    assert found is not None
    return spark.HostPart(found, spec, place, str(tmp_path / "job"), lambda: None)


def left(tmp_path: Path) -> list[str]:
    return [path.name for folder in ("job", "tmp") for path in (tmp_path / folder).iterdir()]


def test_a_configuration_that_is_none_leaves_nothing_behind(part: spark.HostPart, tmp_path: Path) -> None:
    (tmp_path / "ml/processing/input/conf/configuration.json").write_text("3")
    with pytest.raises(RefusalError, match=r"configuration\.json: int is not a list of classifications\."):
        spark.run_host_part(part)
    assert left(tmp_path) == []


def test_folders_that_cannot_be_made_leave_none_where_all_temporary_files_are(
    part: spark.HostPart, tmp_path: Path
) -> None:
    (tmp_path / "job" / "spark").write_text("")
    with pytest.raises(NotADirectoryError):
        spark.run_host_part(part)
    assert left(tmp_path) == ["spark"]


def test_on_several_machines_executors_need_the_paths_of_the_script(part: spark.HostPart, tmp_path: Path) -> None:
    place = part.place._replace(hosts=["algo-1", "algo-2"], addresses={"algo-1": "10.0.0.5", "algo-2": "10.0.0.6"})
    with pytest.raises(RefusalError, match=r"needs hosts with an /opt/ml of their own.*doctor says why"):
        spark.run_host_part(part._replace(place=place))
    assert left(tmp_path) == []


def by_spark(folder: Path) -> dict[str, Any]:
    """Give the fields of a job that finds what there is of Spark in a folder."""
    variables = {"PYTHONPATH": str(folder), "JAVA_HOME": str(folder), "SPARK_HOME": str(folder / "pyspark")}
    return {"kind": "process", "distribution": "pyspark", "environment": variables}


def test_what_the_system_refuses_a_cluster_ends_the_job_with_its_words(agent: Agent, tmp_path: Path) -> None:
    lay(tmp_path, SPARK)
    record = agent.run("print('ran')", **by_spark(tmp_path))
    started = tmp_path / "pyspark" / "bin" / "spark-class"
    assert (record["cause"], record["exit_code"]) == ("exit", 1)
    assert record["failure"] == f"There is no Spark cluster: Permission denied: {started}."
    assert "ran" not in record["text"]


def test_a_master_that_ends_at_once_ends_the_job_and_no_framework_processor_has_left_its_archive(
    agent: Agent, tmp_path: Path
) -> None:
    lay(tmp_path / "machine", SPARK)
    program = tmp_path / "machine" / "pyspark" / "bin" / "spark-class"
    program.write_text('#!/bin/sh\ncd "$SAGEMAKER_BASE_DIR/processing/input" && ls -d * code/*\nexit 5\n')
    program.chmod(0o700)
    source = packed(tmp_path, {"etl.py": "print('ran')", "helper.py": ""})
    found = by_spark(tmp_path / "machine")
    record = agent.run("print('ran')", source_dir=source, entry_point="etl.py", **found)
    said = "The Spark master of algo-1 ended with exit code 5 before the script. Its log has details."
    assert record["failure"] == said
    assert record["text"].splitlines()[:-1] == ["code", "code/etl.py", "code/helper.py"]
