from __future__ import annotations

import inspect
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.options.option_values import parse_channel
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import (
    RefusedError,
    ResourceNotFoundError,
    SmxError,
    UnavailableError,
    ValidationError,
)
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripted_controller import ScriptedController

    from jupyter_smx.kernel.client.client import Client


@pytest.fixture(autouse=True)
def without_a_notebook(controller: ScriptedController, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:  # noqa: ARG001 - it must be there first
    session.close_session()
    yield session.open_session(None)
    session.close_session()


def test_threads_that_begin_side_by_side_share_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session.close_session()
    made = []
    second = threading.Barrier(2)

    def slow() -> Client:
        with suppress(threading.BrokenBarrierError):
            second.wait(0.1)
        made.append(client())
        return made[-1]

    client = session.autostart.client
    monkeypatch.setattr(session.autostart, "client", slow)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: session.current_session(), range(4)))
    assert (len(found), len(made)) == (1, 1)


def test_train_is_the_magic_without_magic(
    controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = smx.train(
        "model = lr",
        name="digits",
        instance_type="ml.m5.large",
        keep_alive="10m",
        hyperparameters={"epochs": 3, "name": "adam"},
        inputs={"train": Path("data")},
        outputs={"model": "models"},
        send={"lr": 0.1},
        receive=["model"],
        environment={"N": 1},
    )
    spec = controller.jobs[job.id].spec
    assert spec.source == "model = lr"
    assert (spec.keep_alive, spec.base_name, spec.receive) == (600, "digits", ("model",))
    assert spec.hyperparameters == {"epochs": "3", "name": '"adam"'}
    assert spec.environment == {"N": "1"}
    assert spec.channels[0].source == str(tmp_path / "data")
    assert spec.outputs[0].destination == str(tmp_path / "models")
    assert payload.unpack(Path(spec.send.path)) == {"lr": 0.1}


def test_a_script_and_a_processing_job(controller: ScriptedController, tmp_path: Path) -> None:
    script = tmp_path / "prepare.py"
    script.write_text("print('ünï')", encoding="utf-8")
    job = smx.process(script, outputs={"clean": ""})
    spec = controller.jobs[job.id].spec
    assert (spec.kind, spec.source) == ("process", "print('ünï')")
    assert spec.outputs[0].path == "/opt/ml/processing/output/clean"


def test_wrong_arguments_are_refused_before_anything_is_created(controller: ScriptedController, tmp_path: Path) -> None:
    for wrong in ({"code": "x = ="}, {"code": 3}, {"code": tmp_path / "no.py"}, {"code": "x", "keep_alive": "soon"}):
        with pytest.raises(ValidationError):
            smx.train(**wrong)
    assert controller.jobs == {}


def test_a_number_that_python_would_not_print_is_refused_in_a_sentence(controller: ScriptedController) -> None:
    for wrong in ("9" * 5_000, 10**5_000, -1, True, 10**9):
        with pytest.raises(ValidationError, match=r"is not a number of retries\. It is a whole number from 0"):
            smx.train("pass", retries=wrong)  # type: ignore[arg-type]  # text is what a line has
    assert controller.jobs == {}


BIG, NAN = 10**5_000, math.nan


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("keep_alive", BIG, r"keep_alive: a number of 16610 bits is not a duration\. .* For example 600, 10m"),
        ("keep_alive", NAN, r"keep_alive=nan is not a duration\."),
        ("max_run", math.inf, r"max_run=inf is not a duration\."),
        ("max_run", True, r"max_run=True is not a duration\."),
        ("max_run", "9" * 5_000, r"max_run='9{63}… is not a duration\."),
        ("instance_count", BIG, r"instance_count: a number of 16610 bits is not a number of hosts\. .* from 1 to"),
        ("instance_count", NAN, r"instance_count=nan is not a number of hosts\. It is a whole number from 1\."),
        ("instance_count", 0, r"instance_count=0 is not a number of hosts\."),
        (
            "instance_groups",
            [InstanceGroup(instance_count=BIG)],
            r"instance_groups: a number of 16610 bits is not a number",
        ),
        ("instance_groups", [InstanceGroup(name="a", instance_count=0)], r"For example instance_groups='a:local:1'\."),
        (
            "instance_groups",
            [3],
            r"instance_groups=\[3\] has the wrong type\. It is a list of smx\.InstanceGroup\. For example",
        ),
        (
            "hyperparameters",
            {"lr": BIG},
            r"hyperparameters\['lr'\]: a number of 16610 bits cannot be a hyperparameter\.",
        ),
        ("hyperparameters", {3: 1}, r"hyperparameters=\{3: 1\} has the wrong type\. It is a dict .* For example"),
        ("env", {"environment": {"N": BIG}}, r"environment\['N'\]: a number of 16610 bits is too long\."),
        ("inputs", {"train": BIG}, r"inputs=an object of type dict has the wrong type\."),
        ("receive", "model", r"receive='model' has the wrong type\. .* For example receive=\['model', 'scores'\]"),
        ("send", 3, r"send=3 has the wrong type\."),
        ("name", 3, r"name=3 has the wrong type\. It is text\."),
        (
            "network_isolation",
            "yes",
            r"network_isolation='yes' has the wrong type\. It is True or False\. For example",
        ),
        ("after", 3, r"after: a value of type int is not a job\."),
        ("after", BIG, r"after: a value of type int is not a job\."),
    ],
    ids=lambda value: "" if isinstance(value, int) else None,
)
def test_a_wish_of_another_type_or_size_is_a_sentence_with_its_field(
    controller: ScriptedController, field: str, value: Any, sentence: str
) -> None:
    wish = value if field == "env" else {field: value}
    with pytest.raises(ValidationError, match=sentence) as refused:
        smx.train("pass", **wish)
    assert refused.value.field in (field, "group")
    assert len(refused.value.value) <= 70
    assert controller.jobs == {}


@pytest.mark.parametrize(
    "text",
    [
        "data",
        "data,distribution=sharded",
        "s3://bucket/data,mode=FastFile,groups=a+b",
        "list.txt,type=manifest,content_type=text/csv",
        "~/data,path=/opt/ml/processing/x",
    ],
)
def test_the_text_of_an_input_means_what_it_means_on_a_line(
    controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    job = smx.train("pass", inputs={"train": text})
    assert controller.jobs[job.id].spec.channels == (parse_channel(f"train={text}", tmp_path),)


def test_a_path_of_an_input_has_no_properties(controller: ScriptedController, tmp_path: Path) -> None:
    job = smx.train("pass", inputs={"train": tmp_path / "a,mode=x"})
    assert controller.jobs[job.id].spec.channels[0].source == str(tmp_path / "a,mode=x")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "data,distribution=some",
            r"inputs\['train'\]: distribution 'some' does not exist\. There are FullyReplicated",
        ),
        ("data,mod=File", r"inputs\['train'\]: mod is not a channel property\..* Did you mean mode"),
        ("data,mode=Pipe", r"inputs\['train'\]: mode Pipe is not supported\."),
        ("", r"inputs\['train'\]: the source is missing\. .* For example inputs=\{'train': 'data\.csv'\}\."),
    ],
)
def test_what_an_input_cannot_have_is_refused_by_its_keyword(
    controller: ScriptedController, text: str, sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        smx.train("pass", inputs={"train": text})
    assert controller.jobs == {}


@pytest.mark.parametrize("field", sorted(set(inspect.signature(smx.train).parameters) - {"code"}))
def test_a_keyword_that_is_none_is_one_that_nobody_set(controller: ScriptedController, field: str) -> None:
    """Functions of people's own hand keywords on; a folder None was looked for, and None was not iterable."""
    smx.train("pass")
    smx.train("pass", **{field: None})
    plain, with_none = (job.spec for job in controller.jobs.values())
    assert with_none == replace(plain, submitted_at=with_none.submitted_at)


@pytest.mark.parametrize("field", ["image", "python", "keep_alive", "after", "requirements"])
def test_so_it_is_at_other_doors(controller: ScriptedController, field: str) -> None:
    smx.remote()(abs).submit(1)
    smx.remote(**{field: None})(abs).submit(1)
    smx.map(abs, [1], **{field: None})
    smx.process("pass", arguments=None)  # type: ignore[arg-type]  # what this is about
    specs = [job.spec for job in controller.jobs.values()]
    assert len(specs) == 4
    assert replace(specs[1], submitted_at=0, send=None) == replace(specs[0], submitted_at=0, send=None)


def test_other_doors_refuse_what_train_refuses(controller: ScriptedController) -> None:
    with pytest.raises(ValidationError, match=r"hyperparameters=3 has the wrong type"):
        smx.map(abs, [1], hyperparameters=3)
    with pytest.raises(ValidationError, match=r"metrics=\{'loss': 3\} has the wrong type"):
        smx.remote(metrics={"loss": 3})  # type: ignore[dict-item]  # what this is about
    with pytest.raises(ValidationError, match=r"keep_alive=nan is not a duration"):
        smx.remote(keep_alive=NAN)(abs).submit(1)  # type: ignore[arg-type]  # what this is about
    assert controller.jobs == {}


@pytest.mark.parametrize("kind", [ValidationError, RefusedError, ResourceNotFoundError, UnavailableError])
def test_what_the_controller_refuses_names_keywords(monkeypatch: pytest.MonkeyPatch, kind: type[SmxError]) -> None:
    def refuse(*_: Any) -> Any:
        raise kind("--engine: 'ssh' has no machines.", cure="Write --engine ssh:NAME, or add --wait.")

    monkeypatch.setattr(session.current_session().client, "submit", refuse)
    for call in (smx.train, smx.process, lambda code: smx.remote()(abs).submit(code)):
        with pytest.raises(kind, match=r"engine='ssh' has no machines\. Write engine='ssh:NAME', or add wait=True\."):
            call("pass")


def test_an_unknown_dependency_names_the_keyword() -> None:
    with pytest.raises(ResourceNotFoundError, match=r"^after: there is no job"):
        smx.train("pass", after="missing")


def test_numbers_of_numpy_are_numbers(controller: ScriptedController) -> None:
    job = smx.train("pass", keep_alive=np.int64(600), instance_count=np.int32(1), max_run=np.uint8(60))  # type: ignore[arg-type]
    spec = controller.jobs[job.id].spec
    assert (spec.keep_alive, spec.instance_count(), spec.max_run) == (600, 1, 60)


def test_waiting_gives_the_handle_of_a_finished_job(
    controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.on_submit = lambda fake, job: (fake.write(job.id, "hi\n"), fake.end(job.id))
    assert smx.train("x = 1", wait=True).latest_record.ended_at
    assert capsys.readouterr().out == "hi\n"


@pytest.mark.usefixtures("controller")
def test_two_jobs_are_compared_by_name_and_by_handle_and_one_with_the_run_before_it() -> None:
    first = smx.train("x = 1", name="digits", hyperparameters={"lr": 1})
    second = smx.train("x = 1", name="digits", hyperparameters={"lr": 2})
    assert "hyperparameter lr (1 → 2)" in smx.diff(first, second.name).sentence
    assert "hyperparameter lr (2 → 1)" in smx.diff(second, first).sentence
    with pytest.raises(ResourceNotFoundError):
        smx.diff(first, "never")
    for wrong in ("", smx.train("x = 1", hyperparameters={"lr": [1, 2]}, sweep=True, name="grid")):
        with pytest.raises(ValidationError, match=r"the name of a job is missing|is an array of 2 tasks"):
            smx.diff(wrong)  # type: ignore[arg-type]  # an array is no job


@pytest.mark.usefixtures("controller")
def test_jobs_are_found_again() -> None:
    job = smx.train("x = 1", name="digits")
    assert smx.job("digits") == smx.job(job.name) == job
    assert [found.id for found in smx.jobs()] == [job.id]
    assert smx.pools() == ()
    with pytest.raises(ResourceNotFoundError):
        smx.job("never")


def test_the_package_offers_its_names_and_no_others() -> None:
    assert {"train", "process", "job", "jobs", "JobFailed"} <= set(dir(smx))
    assert issubclass(smx.JobFailed, smx.SmxError)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = smx.trian
