"""A job as a folder: what lies in it, and that its call of SageMaker is one that the SDK takes."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exported_jobs import SET, TYPE, job, packed, readme, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sagemaker_stand_in import install

from jupyter_smx import controller_launch
from jupyter_smx.kernel.request import source_dir
from jupyter_smx.kernel.request.payload import pack
from jupyter_smx.kernel.sagemaker.estimator_call import decode_hyperparameters, hyperparameter_arguments, program
from jupyter_smx.kernel.sagemaker.export import export, requirements
from jupyter_smx.model import redaction
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.results.provenance import Provenance, SeedNote
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup


def test_a_training_job_becomes_an_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = job(
        instance_groups=(TYPE,),
        keep_alive=600,
        max_run=7200,
        retries=2,
        hyperparameters={"epochs": "3", "name": "adam", "flag": "true", "layers": "[1, 2]"},
        environment={"A": 'it\'s "b"'},
        metrics={"loss": r"loss=([0-9.]+)"},
        disable_output_compression=True,
    )
    made = export(wish, tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    found = recorder.of("Estimator")
    session = found.pop("sagemaker_session")
    assert session.asked == {"default_bucket": "bucket"}
    assert found == {
        "image_uri": "image",
        "role": "arn:aws:iam::111122223333:role/Smx",
        "base_job_name": "digits",
        "source_dir": f"{made.folder}/code",
        "entry_point": "train.py",
        "instance_type": "ml.m5.xlarge",
        "instance_count": 2,
        "keep_alive_period_in_seconds": 600,
        "max_run": 7200,
        "max_retry_attempts": 2,
        "disable_output_compression": True,
        "hyperparameters": {"epochs": 3, "name": "adam", "flag": True, "layers": [1, 2]},
        "environment": {"A": 'it\'s "b"'},
        "metric_definitions": [{"Name": "loss", "Regex": r"loss=([0-9.]+)"}],
        "output_path": "s3://bucket/digits-aaaaaa/output",
    }
    assert recorder.of("Estimator.fit") == {}


def test_inputs_are_uploaded_where_they_are_not_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "a.csv").touch()
    channels = (
        Channel(name="train", source=str(tmp_path / "data"), distribution="ShardedByS3Key", groups=("g",)),
        Channel(name="csv", source=str(tmp_path / "*.csv"), mode="FastFile"),
        Channel(name="far", source="s3://other/prefix"),
        Channel(name="web", source="https://example.org/x"),
    )
    export(job(channels=channels), tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    inputs = {name: value.asked for name, value in recorder.of("Estimator.fit")["inputs"].items()}
    there = "s3://bucket/digits-aaaaaa/input"
    assert inputs == {
        "train": {"s3_data": f"{there}/train", "distribution": "ShardedByS3Key", "instance_groups": ["g"]},
        "csv": {"s3_data": f"{there}/csv", "input_mode": "FastFile"},
        "far": {"s3_data": "s3://other/prefix"},
        "web": {"s3_data": f"{there}/web"},
    }
    uploads = [asked for name, asked in recorder.calls if name == "Session.upload_data"]
    assert [(asked["path"], asked["key_prefix"]) for asked in uploads] == [
        (str(tmp_path / "data"), "digits-aaaaaa/input/train"),
        (str(tmp_path / "a.csv"), "digits-aaaaaa/input/csv"),
    ]


def test_a_processing_job_becomes_a_script_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = job(
        kind="process",
        instance_groups=(TYPE,),
        max_run=900_000,
        hyperparameters={"n": "3"},
        environment={"A": "b"},
        channels=(
            Channel(name="raw", source="s3://other/prefix", distribution="ShardedByS3Key"),
            Channel(name="model", source="s3://other/model/", path="/opt/ml/processing/model"),
        ),
        outputs=(Output(name="clean", path="/opt/ml/processing/output/clean", destination="/home/me"),),
    )
    made = export(wish, tmp_path / "out")
    recorder = run(tmp_path / "out", monkeypatch)
    found = recorder.of("ScriptProcessor")
    assert (found["command"], found["instance_count"], found["env"]) == (["python3"], 2, {"A": "b"})
    assert found["max_runtime_in_seconds"] == 777_600  # SageMaker's longest
    asked = recorder.of("ScriptProcessor.run")
    assert asked["code"] == f"{made.folder}/code/process.py"
    assert asked["arguments"] == ["-n", "3"]
    assert asked["inputs"][0].asked == {
        "source": "s3://other/prefix",
        "destination": "/opt/ml/processing/input/raw",
        "input_name": "raw",
        "s3_data_distribution_type": "ShardedByS3Key",
    }
    assert asked["inputs"][1].asked["destination"] == "/opt/ml/processing/model"
    assert asked["outputs"][0].asked == {
        "source": "/opt/ml/processing/output/clean",
        "output_name": "clean",
        "destination": "s3://bucket/digits-aaaaaa/output/clean",
    }


@pytest.mark.parametrize("own", [True, False])
def test_a_processor_installs_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool) -> None:
    made = export(job(kind="process", requirements=("einops==0.8.0",) if own else ()), tmp_path / "out")
    asked = run(tmp_path / "out", monkeypatch).of(f"{'Framework' if own else 'Script'}Processor.run")
    assert asked.get("source_dir") == (f"{made.folder}/code" if own else None)
    required = tmp_path / "out" / "code" / "requirements.txt"
    assert (required.read_text() if required.exists() else "") == ("einops==0.8.0\n" if own else "")


def test_groups_become_instance_groups_and_this_machine_a_name_at_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = (InstanceGroup(name="gpu"), InstanceGroup(name="data", instance_type="ml.c5.xlarge", instance_count=2))
    export(job(instance_groups=groups, keep_alive=60), tmp_path / "out")
    found = run(tmp_path / "out", monkeypatch).of("Estimator")
    assert [tuple(group.asked.values()) for group in found["instance_groups"]] == [
        ("gpu", "ml.m5.xlarge", 1),
        ("data", "ml.c5.xlarge", 2),
    ]
    assert not {"instance_type", "instance_count", "keep_alive_period_in_seconds"}.intersection(found)
    assert 'INSTANCE_TYPE = "ml.m5.xlarge"  # the job ran on' in (tmp_path / "out" / "sagemaker_job.py").read_text()


def test_a_program_whose_names_are_not_set_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(job(), tmp_path / "out")
    install(monkeypatch)
    text = (tmp_path / "out" / "sagemaker_job.py").read_text()
    with pytest.raises(SystemExit, match="Set ROLE, BUCKET and IMAGE_URI at the top"):
        exec(compile(text, "x", "exec"), {"__name__": "__main__", "__file__": "x"})  # noqa: S102 - as above


@pytest.mark.parametrize("kind", ["train", "process"])
def test_a_folder_of_code_is_unpacked_and_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    source = packed(tmp_path, sub__fit="import helper\n", helper="X = 1\n")
    wish = job(kind=kind, source="import helper\n", source_dir=source, entry_point="sub/fit.py")
    made = export(wish, tmp_path / "out")
    assert set(made.files) == {
        "README.md", "code/helper.py", "code/sub/fit.py", "hyperparameters.json", "job.json", "requirements.txt",
        "sagemaker_job.py",
    }  # fmt: skip
    recorder = run(tmp_path / "out", monkeypatch)
    if kind == "train":
        found = recorder.of("Estimator")
        assert (found["source_dir"], found["entry_point"]) == (f"{made.folder}/code", "sub/fit.py")
    else:
        asked = recorder.of("FrameworkProcessor.run")
        assert (asked["source_dir"], asked["code"]) == (f"{made.folder}/code", "sub/fit.py")
        assert recorder.of("FrameworkProcessor")["estimator_cls"].__name__ == "SKLearn"


def test_a_cell_beside_a_folder_takes_no_name_of_it_there_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    made = export(job(source_dir=packed(tmp_path, train="theirs = 1\n")), tmp_path / "out")
    assert (tmp_path / "out" / "code" / "train.py").read_text() == "theirs = 1\n"
    assert (tmp_path / "out" / "code" / "train_cell.py").read_text() == "print('hello')\n"
    assert '"train_cell.py"' in (tmp_path / "out" / "sagemaker_job.py").read_text()
    assert "code/train_cell.py" in made.files


def test_files_that_gitignore_kept_out_of_the_job_are_copied_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    folder = tmp_path / "src"
    for name, text in {
        ".gitignore": "config.json\n*.csv\ndata/\n.venv/\n",
        "train.py": "1\n",
        "config.json": "before",
        "data/deep/a.txt": "a",
        "data/__pycache__/a.pyc": "",
        ".venv/pyvenv.cfg": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for number in range(11):
        (folder / f"{number:02}.csv").write_text("")
    source = source_dir.pack(str(folder), tmp_path / "payloads")
    (folder / "config.json").write_text("now")
    (folder / "00.csv").unlink()
    made = export(job(source_dir=source, entry_point="train.py"), tmp_path / "out")
    assert [name for name in made.files if name.startswith("code/")] == [
        "code/.gitignore",
        *(f"code/{number:02}.csv" for number in range(1, 11)),
        "code/config.json",
        "code/data/deep/a.txt",
        "code/train.py",
    ]
    assert (tmp_path / "out" / "code" / "config.json").read_text() == "now"
    text = readme(tmp_path / "out")
    assert "kept these files of the source folder out of the job: `.venv/`, `00.csv`, `01.csv`, " in text
    assert "`08.csv` and 4 more. " in text
    assert f"`code/` has those that `{folder}` had at the export, but not `.venv/`, `00.csv`." in text


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_FILES"])
def test_files_that_gitignore_kept_out_are_named_if_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    folder = tmp_path / "src"
    folder.mkdir()
    for name, text in {".gitignore": "*.csv\n", "train.py": "1\n", "a.csv": "a" * 99, "b.csv": "b" * 99}.items():
        (folder / name).write_text(text)
    source = source_dir.pack(str(folder), tmp_path / "payloads")
    monkeypatch.setattr(source_dir, limit, {"MAX_BYTES": source.size + 197, "MAX_FILES": source.files + 1}[limit])
    made = export(job(source_dir=source, entry_point="train.py"), tmp_path / "out")
    assert not [name for name in made.files if name.endswith(".csv")]
    text = readme(tmp_path / "out")
    assert "They were not copied, as they are 2 files with 198 B. Copy what the script needs to `code/`" in text


def test_a_folder_of_code_that_is_gone_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    source = packed(tmp_path, train="1\n")
    kept = tmp_path / "smx" / "jobs" / ("a" * 12) / "source.tar.gz"
    kept.parent.mkdir(parents=True)
    Path(source.path).rename(kept)  # the job's own folder keeps it longer
    assert "code/train.py" in export(job(source_dir=source), tmp_path / "out").files
    kept.unlink()
    with pytest.raises(ResourceNotFoundError, match=r"It was packed from .*/src"):
        export(job(source_dir=source), tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "smx", "src"]  # nothing half-made


@pytest.mark.processes
def test_variables_of_the_notebook_are_handed_to_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send = pack({"cfg": {"lr": 0.1}}, tmp_path / "payloads")
    wish = job(source="\nimport sys\nprint(cfg['lr'], sys.argv[1:], __name__)\n", send=send)
    made = export(wish, tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "with_variables.py", "--epochs", "3"],
        cwd=Path(made.folder, "code"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0.1 ['--epochs', '3'] __main__\n"
    assert run(tmp_path / "out", monkeypatch).of("Estimator")["entry_point"] == "with_variables.py"
    assert "`cfg` (" in (tmp_path / "out" / "README.md").read_text()
    assert "cloudpickle==" in (tmp_path / "out" / "requirements.txt").read_text()
    Path(send.path).unlink()
    export(wish, tmp_path / "later")
    assert "They are gone" in (tmp_path / "later" / "README.md").read_text()
    assert '"train.py"' in (tmp_path / "later" / "sagemaker_job.py").read_text()


def test_requirements_are_what_was_recorded_and_then_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = SeedNote(sentence="")
    recorded = Provenance(code_sha256="", packages={"scikit-learn": "1.5.0", "numpy": "2.0"}, seeds=note)
    asked = ("Scikit_Learn>=1.4", "-c numpy<3", "tool @ https://example.org/tool.whl", "pandas==2.2")
    wish = job(requirements=asked)
    assert requirements(wish) == [asked[0], "# constraint: numpy<3", *asked[2:]]
    wish = replace(wish, provenance=recorded)
    assert requirements(wish) == ["numpy==2.0", "scikit-learn==1.5.0", "# constraint: numpy<3", *asked[2:]]
    export(wish, tmp_path / "out")
    found = run(tmp_path / "out", monkeypatch).of("Estimator")
    assert found["dependencies"] == [str(tmp_path / "out" / "requirements.txt")]


def test_a_folder_that_somebody_stands_in_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    export(job(), Path())
    assert tmp_path.stat().st_ino == before
    assert Path("README.md").is_file()


def test_requirements_of_the_folder_stay_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "requirements.txt").write_text("mine\n")
    wish = job(source_dir=packed(tmp_path, train="1\n"), requirements=("theirs",))
    export(wish, tmp_path / "out")
    assert (tmp_path / "out" / "code" / "requirements.txt").read_text() == "mine\n"
    assert "dependencies" not in run(tmp_path / "out", monkeypatch).of("Estimator")


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export(job(), tmp_path / "out")
    with pytest.raises(ValidationError, match="out is not empty"):
        export(job(), tmp_path / "out")
    with pytest.raises(ValidationError, match=r"README\.md is a file"):
        export(job(), tmp_path / "out" / "README.md")


def test_inputs_outputs_and_hyperparameters_are_described(tmp_path: Path) -> None:
    wish = job(
        hyperparameters={"lr": "0.1", "name": "adam"},
        channels=(Channel(name="train", source="/data/train"),),
        outputs=(Output(name="model", path="/opt/ml/model", destination="/home/me/models"),),
    )
    export(wish, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "hyperparameters.json").read_text()) == {"lr": 0.1, "name": "adam"}
    described = json.loads((tmp_path / "out" / "job.json").read_text())
    assert described["inputs"][0]["source"] == "/data/train"
    model = {"name": "model", "path": "/opt/ml/model", "destination": "/home/me/models", "mode": "EndOfJob"}
    assert described["outputs"][0] == model
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "cd code && python train.py --lr 0.1 --name adam" in readme
    assert "- `train`: /data/train, in the job `/opt/ml/input/data/train`" in readme


def test_variables_of_the_front_for_clients_of_aws_stay_here(tmp_path: Path) -> None:
    mark = {controller_launch.AWS_VARIABLES: "AWS_ENDPOINT_URL_S3,AWS_SECRET_ACCESS_KEY"}
    front = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    export(job(environment={"LEVEL": "info", **front, **mark}), tmp_path / "out")
    text = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert "LEVEL" in text
    assert not [word for word in (*front, *front.values(), *mark) if word in text]


NAMES = st.text("abc_-.", min_size=1, max_size=5)
ANY = st.text(max_size=12)
HYPERPARAMETERS = st.dictionaries(ANY, ANY | st.sampled_from(["1", "true", "null", "[1]", '{"b": 1, "a": "x"}']))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, []),
        ({"lr": "0.10", "b": "x y"}, ["-b", "x y", "--lr", "0.1"]),
        ({"on": "true", "none": "null", "list": "[1]"}, ["--list", "[1]", "--none", "", "--on", "True"]),
        ({"map": '{"b": 1, "a": "x"}'}, ["--map", "a=x,b=1"]),
        ({"sagemaker_program": "train.py", "_tuning_objective_metric": "loss", "n": "1"}, ["-n", "1"]),
    ],
)
def test_arguments_are_those_that_sagemakers_toolkit_makes(found: dict[str, str], words: list[str]) -> None:
    assert hyperparameter_arguments(found) == words


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(["train", "process"]),
    alone=st.booleans(),
    needs=st.booleans(),
    fields=st.fixed_dictionaries(
        {
            "hyperparameters": HYPERPARAMETERS,
            "environment": st.dictionaries(ANY, ANY),
            "metrics": st.dictionaries(ANY, ANY),
            "channels": st.lists(st.builds(Channel, name=NAMES, source=ANY), max_size=3).map(tuple),
            "outputs": st.lists(st.builds(Output, name=NAMES, path=ANY), max_size=3).map(tuple),
            "instance_groups": st.lists(
                st.builds(InstanceGroup, name=ANY, instance_type=st.sampled_from(["local", "ml.m5.xlarge"])), min_size=1
            ).map(tuple),
        }
    ),
)
def test_any_wish_becomes_a_program_that_the_sdk_takes(
    kind: str, alone: bool, needs: bool, fields: dict[str, Any]
) -> None:
    text = program(job(kind=kind, **fields), "train.py", alone=alone, requirements=needs)
    ast.parse(text)
    for placeholder, value in SET.items():
        text = text.replace(placeholder, value, 1)
    with pytest.MonkeyPatch.context() as patch:
        recorder = install(patch)
        names = {"__name__": "program", "__file__": "/nowhere/sagemaker_job.py"}
        exec(compile(text, "program", "exec"), names)  # noqa: S102 - what it is for
        names.update(uploaded=lambda _session, channel, source: f"{channel}:{source}", json=Values(fields))  # type: ignore[arg-type]
        patch.setattr(Path, "read_text", lambda *_how, **_words: "")
        names["main"]()  # type: ignore[operator]
    made = recorder.of("Estimator" if kind == "train" else "ScriptProcessor" if alone else "FrameworkProcessor")
    assert made.get("environment" if kind == "train" else "env", {}) == redaction.redact_variables(
        fields["environment"]
    )
    if kind == "train":
        assert {row["Name"]: row["Regex"] for row in made.get("metric_definitions", [])} == fields["metrics"]


class Values:
    """Stands for ``json`` in a program whose files were not written."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._values = decode_hyperparameters(fields["hyperparameters"])

    def loads(self, _text: str) -> Any:
        return pickle.loads(pickle.dumps(self._values))  # noqa: S301 - a copy


@pytest.mark.processes
def test_what_the_tasks_of_an_array_share_is_handed_over_too(tmp_path: Path) -> None:
    large = pickle.PickleBuffer(bytearray(b"x" * 100_000))  # lies behind the pickle in a payload
    shared, own = pack({"a": large}, tmp_path / "payloads"), pack({"b": 2}, tmp_path / "payloads")
    made = export(job(source="print(len(a) + b)", shared=shared, send=own), tmp_path / "out")
    words = [sys.executable, str(Path(made.folder, "code", "with_variables.py"))]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "100002\n"
    assert set(json.loads((tmp_path / "out" / "job.json").read_text())["variables_sent"]) == {"a", "b"}
