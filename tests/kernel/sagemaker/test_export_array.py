"""An array as a folder: a tuning job where it is a grid, and one call for each task where it is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from exported_jobs import NAME, SCORE, array, mapped, readme, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_model import breaches, refused, request

from jupyter_smx.kernel.sagemaker.export_array import export_array
from jupyter_smx.model.spec.channel import Channel, Output

if TYPE_CHECKING:
    from sagemaker_stand_in import Recorder


def sent_by_the_sdk(recorder: Recorder) -> dict[str, Any]:
    """Give the request that sagemaker 2.257.7 was seen to send for such calls."""
    estimator, tuner = recorder.of("Estimator"), recorder.of("HyperparameterTuner")
    ranges = {name: category.asked["values"] for name, category in tuner["hyperparameter_ranges"].items()}
    return {
        "HyperParameterTuningJobName": f"{tuner['base_tuning_job_name']}-261122-2249",
        "HyperParameterTuningJobConfig": {
            "Strategy": tuner["strategy"],
            "ResourceLimits": {
                "MaxNumberOfTrainingJobs": tuner["max_jobs"],
                "MaxParallelTrainingJobs": tuner["max_parallel_jobs"],
            },
            "TrainingJobEarlyStoppingType": tuner["early_stopping_type"],
            "HyperParameterTuningJobObjective": {
                "Type": tuner["objective_type"],
                "MetricName": tuner["objective_metric_name"],
            },
            "ParameterRanges": {
                "CategoricalParameterRanges": [{"Name": name, "Values": values} for name, values in ranges.items()]
            },
        },
        "TrainingJobDefinition": {
            "StaticHyperParameters": {name: json.dumps(value) for name, value in estimator["hyperparameters"].items()},
            "RoleArn": estimator["role"],
            "OutputDataConfig": {"S3OutputPath": estimator["output_path"]},
            "StoppingCondition": {"MaxRuntimeInSeconds": estimator["max_run"]},
            "HyperParameterTuningResourceConfig": {
                "InstanceCount": estimator["instance_count"],
                "InstanceType": estimator["instance_type"],
                "VolumeSizeInGB": 30,
            },
            "AlgorithmSpecification": {
                "TrainingInputMode": "File",
                "MetricDefinitions": tuner["metric_definitions"],
                "TrainingImage": estimator["image_uri"],
            },
        },
    }


def test_a_grid_becomes_a_tuning_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = export_array(array(metrics=SCORE, keep_alive=600), tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    sent = sent_by_the_sdk(recorder)
    assert list(breaches(request("CreateHyperParameterTuningJob"), sent)) == []
    assert refused("CreateHyperParameterTuningJob", sent) == ""
    estimator, tuner = recorder.of("Estimator"), recorder.of("HyperparameterTuner")
    assert "keep_alive_period_in_seconds" not in estimator, "a tuning job keeps its hosts by itself"
    assert estimator["hyperparameters"] == {"epochs": 3}, "what is varied is in no job's own"
    ranges = {name: category.asked["values"] for name, category in tuner.pop("hyperparameter_ranges").items()}
    assert ranges == {"depth": ["1", "2"], "opt": ["adam", "sgd"]}
    assert type(tuner.pop("estimator")).__name__ == "Estimator"
    assert tuner == {
        "objective_metric_name": "score",
        "objective_type": "Maximize",
        "metric_definitions": [{"Name": "score", "Regex": "score=(.*)"}],
        "strategy": "Grid",
        "max_jobs": 4,
        "max_parallel_jobs": 4,
        "early_stopping_type": "Off",
        "base_tuning_job_name": "grid",
    }
    assert recorder.of("HyperparameterTuner.fit") == {}
    assert set(made.files) == {
        "README.md", "code/train.py", "hyperparameters.json", "job.json", "requirements.txt", "sagemaker_job.py",
        "tasks.json",
    }  # fmt: skip
    assert "tries each of the 4 combinations once" in readme(tmp_path / "out")
    assert "cd code && python train.py --depth 1 --epochs 3 --opt adam" in readme(tmp_path / "out")
    described = json.loads((tmp_path / "out" / "job.json").read_text())
    assert described["tasks"][3] == {"name": f"{NAME}-3", "status": "InProgress", "metrics": {}}
    assert "status" not in described


VALUES = st.lists(st.text(max_size=9) | st.integers() | st.booleans(), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(swept=st.dictionaries(st.text("ab_-\"'é\n{}", min_size=1, max_size=5), VALUES, min_size=1, max_size=3))
def test_whatever_is_swept_the_program_asks_for_it(tmp_path_factory: Any, swept: dict[str, list[Any]]) -> None:
    tasks = array(swept, metrics={"a\n{b}\x85": "(.*)"})
    folder = tmp_path_factory.mktemp("sweep") / "out"
    export_array(tasks, folder)
    with pytest.MonkeyPatch.context() as patch:
        recorder = run(folder, patch)
    called = [asked for name, asked in recorder.calls if name == "HyperparameterTuner"]
    points = tasks.points()
    if called:
        ranges = {name: each.asked["values"] for name, each in called[0]["hyperparameter_ranges"].items()}
        assert ranges == {name: list(dict.fromkeys(point[name] for point in points)) for name in swept}
        assert called[0]["max_jobs"] == len(points)
    else:
        asked = [asked["hyperparameters"] for name, asked in recorder.calls if name == "Estimator"]
        assert len(asked) == len(points)
        assert all(set(one) == set(swept) for one in asked)
        assert "are not each combination of their values once" in readme(folder)


def test_what_is_no_grid_becomes_a_job_for_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    channels = (Channel(name="train", source=str(tmp_path / "data")),)
    export_array(array(metrics=SCORE, left_out=1, channels=channels, checkpoint="/kept"), tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    asked = [asked for name, asked in recorder.calls if name == "Estimator"]
    assert [one["hyperparameters"] for one in asked] == [
        {"epochs": 3, "depth": 1, "opt": "sgd"},
        {"epochs": 3, "depth": 2, "opt": "adam"},
        {"epochs": 3, "depth": 2, "opt": "sgd"},
    ]
    kept = [one["checkpoint_s3_uri"] for one in asked]
    assert kept == [f"s3://bucket/{NAME}/checkpoints/{index}" for index in (1, 2, 3)]
    fits = [asked for name, asked in recorder.calls if name == "Estimator.fit"]
    assert [fit["wait"] for fit in fits] == [False] * 3
    assert len([name for name, _ in recorder.calls if name == "Session.upload_data"]) == 1, "one copy does for all"
    assert "On SageMaker it is not a tuning job. Its 3 tasks are not each combination" in readme(tmp_path / "out")


def test_processing_jobs_get_their_words_and_a_place_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = (Output(name="clean", path="/opt/ml/processing/clean"),)
    export_array(array({"depth": [1, 2], "opt": "adam"}, kind="process", outputs=outputs), tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    runs = [asked for name, asked in recorder.calls if name == "ScriptProcessor.run"]
    assert [one["arguments"] for one in runs] == [["--depth", str(n), "--opt", "adam"] for n in (1, 2)]
    goals = [one["outputs"][0].asked["destination"] for one in runs]
    assert goals == [f"s3://bucket/{NAME}/output/{index}/clean" for index in range(2)]
    assert [(one["wait"], one["logs"]) for one in runs] == [(False, False)] * 2
    assert "these are processing jobs" in readme(tmp_path / "out")


def printed(folder: Path) -> str:
    words = [sys.executable, str(folder / "code" / "with_variables.py")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.processes
def test_calls_of_a_function_have_the_variables_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    export_array(mapped(tmp_path), out)
    assert printed(out) == "3\n", "by hand it is the first"
    recorder = run(out, monkeypatch)
    assert [asked["entry_point"] for name, asked in recorder.calls if name == "Estimator"] == ["with_variables.py"] * 2
    assert printed(out) == "4\n", "the last that the program asked for"
    assert "differ in their variables" in readme(out)
    assert "Those of each task are in `variables`" in readme(out)


def test_variables_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    tasks = mapped(tmp_path)
    Path(tasks.sent[1].path).unlink()
    made = export_array(tasks, tmp_path / "out")
    assert not [name for name in made.files if name.startswith("variables/")]
    assert "Each task had its own variables. They were deleted" in readme(tmp_path / "out")
    assert '"train.py"' in (tmp_path / "out" / "sagemaker_job.py").read_text()


def test_no_secret_is_exported_of_an_array(tmp_path: Path) -> None:
    urls = [f"https://me:hunter2@host/{n}?sig=hunter2" for n in range(2)]
    export_array(array({"url": urls, "db": urls[0]}, metrics=SCORE, environment={"TOKEN": "hunter2"}), tmp_path / "out")
    written = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [text for text in written if "hunter2" in text]


def test_an_array_of_sdk_3_has_its_first_task_as_a_call_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_array(array(metrics=SCORE, contract="v3"), tmp_path / "out")
    trainer = run(tmp_path / "out", monkeypatch, "model_trainer.py").of("ModelTrainer")
    assert trainer["hyperparameters"] == {"depth": "1", "epochs": "3", "opt": "adam"}
    assert "its first task by SageMaker's Python SDK 3" in readme(tmp_path / "out")
