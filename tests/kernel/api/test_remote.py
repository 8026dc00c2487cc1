from __future__ import annotations

import asyncio
import functools
import importlib
import math
import pickle
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.failures.exceptions import JobFailed, JobStopped
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripted_controller import ScriptedController


class OddError(Exception):
    pass


class UnloadableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


@smx.remote(keep_alive="10m", instance_type="ml.m5.large")
def area_of(radius: float, *, scale: int = 1) -> float:
    return math.pi * scale * twice(radius)


@smx.remote
def twice(number: float) -> float:
    return number * 2


@smx.remote
def fail(kind: type[BaseException], *arguments: Any) -> None:
    raise kind(*arguments)


@smx.remote
async def later(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@pytest.fixture(autouse=True)
def without_a_notebook(controller: ScriptedController, tmp_path: Path) -> Iterator[None]:
    """Give a process without IPython, and a controller that makes the call itself."""

    def play(fake: ScriptedController, job: Any) -> None:
        main: dict[str, Any] = dict(payload.unpack(Path(job.spec.send.path)))
        fields: dict[str, Any] = {}
        state = SecondaryStatus.COMPLETED
        try:
            exec(compile(job.spec.source, job.spec.filename, "exec"), main)  # noqa: S102 - what an agent does
        except Exception as error:  # noqa: BLE001 - what an agent does
            trace = "".join(traceback.format_exception(error))
            exception = RemoteException(type=type(error).__name__, message=str(error), traceback=trace)
            fields["hosts"] = (HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception),)
            state = SecondaryStatus.FAILED
        path = tmp_path / f"{job.id}.pkl"
        back = {name: cloudpickle.dumps(main[name]) for name in job.spec.receive if name in main}
        path.write_bytes(pickle.dumps(back))
        artifact = Artifact(name="result.pkl", path=str(path), size=path.stat().st_size)
        # Another thread, as the answer to the submission comes first.
        threading.Timer(0, fake.end, (job.id, state), {"artifacts": (artifact,), **fields}).start()

    session.close_session()
    controller.on_submit = play
    yield
    session.close_session()


def test_a_call_is_a_job_and_gives_its_value(controller: ScriptedController) -> None:
    assert area_of(2, scale=3) == math.pi * 12
    (job,) = controller.jobs.values()
    spec = job.spec
    assert (spec.base_name, spec.keep_alive, spec.instances()) == ("area-of", 600, "ml.m5.large × 1")
    assert spec.filename == __file__
    assert spec.imports == ("math",)
    assert set(spec.send.sizes) == {"function", "arguments", "keywords", "lines"}


def test_within_a_job_another_remote_function_is_the_plain_function(controller: ScriptedController) -> None:
    area_of(1)
    assert len(controller.jobs) == 1
    travelled = pickle.loads(cloudpickle.dumps(twice))  # noqa: S301 - made here
    assert travelled.__code__ == twice.__wrapped__.__code__


def test_the_traceback_of_a_job_stands_in_the_functions_file() -> None:
    with pytest.raises(OddError) as raised:
        fail(OddError, "no")
    cause = raised.value.__cause__
    assert isinstance(cause, JobFailed)
    first = fail.__wrapped__.__code__.co_firstlineno
    lines = [line.strip() for line in str(cause).splitlines()]
    assert f'File "{__file__}", line {first}, in <module>' not in lines, "the call that the kernel made"
    assert "@smx.remote" not in lines
    assert f'File "{__file__}", line {first + 2}, in fail' in lines
    assert "raise kind(*arguments)" in lines


def test_an_exception_that_cannot_be_loaded_here_is_a_failed_job() -> None:
    reply = fail.submit(UnloadableError, 1, 2)
    with pytest.raises(JobFailed, match="UnloadableError: 3"):
        reply.result(30)
    assert reply.done()


def test_a_stopped_call_raises_that_it_was_stopped(controller: ScriptedController) -> None:
    controller.on_submit = None
    reply = twice.submit(1)
    reply.job.stop()
    with pytest.raises(JobStopped):
        reply.result(30)


def test_a_value_that_did_not_come_back_says_why(controller: ScriptedController) -> None:
    said = "receive: 'value' cannot be pickled (TypeError: cannot pickle '_thread.lock' object)."
    ended = HostEnd(host="algo-1", cause="exit", exit_code=0, errors=(said,))
    controller.on_submit = lambda fake, job: fake.end(job.id, hosts=(ended,))
    with pytest.raises(SmxError, match=r"cannot pickle '_thread\.lock'"):
        twice(1)


class Box:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def capturing(box: Box) -> Any:
    @smx.remote
    def use() -> Box:
        return box

    return use


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: twice(Box()), r"^twice\(\): arguments\[0\]\.lock is a _thread\.lock and cannot be pickled"),
        (lambda: area_of(1, scale=Box()), r"^area_of\(\): keywords\['scale'\]\.lock is a _thread\.lock"),
        (capturing(Box()), r"function → box\.lock is a _thread\.lock"),
        (lambda: smx.remote(keep_alve="1m"), "keep_alve is not an option. Did you mean keep_alive"),
        (lambda: smx.remote("ml.m5.large"), "is not a function"),
        (lambda: smx.remote(twice, keep_alive="soon").submit(1), "'soon' is not a duration"),
        (lambda: smx.train(lambda: 1, send=["never"]), "no variable 'never'"),
    ],
)
def test_what_cannot_be_called_is_said_and_nothing_is_created(
    controller: ScriptedController, call: Any, sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        call()
    assert controller.jobs == {}


def test_wrong_arguments_are_pythons_own_error_and_no_job(controller: ScriptedController) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'radius'"):
        area_of()
    assert controller.jobs == {}


async def test_calls_are_awaited_side_by_side(controller: ScriptedController) -> None:
    assert await asyncio.gather(twice.aio(2), later.aio(3), _reply()) == [4, 4, 10]
    with pytest.raises(OddError):
        await fail.aio(OddError)
    assert len(controller.jobs) == 4


async def _reply() -> Any:
    return await twice.submit(5)


def made_async(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapped(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapped


def made_plain(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    return wrapped


class Later:
    async def __call__(self, number: int) -> int:
        return number + 1


@pytest.mark.parametrize("function", [made_async(lambda number: number + 1), Later()])
async def test_what_a_decorator_made_async_is_awaited_in_the_job_and_here(function: Any) -> None:
    assert await smx.remote(function)(1) == 2


def test_what_a_decorator_made_plain_is_awaited_by_itself_alone() -> None:
    assert smx.remote(made_plain(later.__wrapped__)).submit(1).result(30) == 2


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (functools.partial(pow, 2, 5), "partial"),
        (lambda number: 2**number, "lambda"),
        (math.exp2 if hasattr(math, "exp2") else math.exp, "exp"),
    ],
)
def test_any_callable_can_be_called(controller: ScriptedController, function: Any, name: str) -> None:
    remote = smx.remote(function)
    expected = function() if name == "partial" else function(5)
    assert (remote() if name == "partial" else remote(5)) == expected
    (job,) = controller.jobs.values()
    assert job.spec.base_name.startswith(name)


BESIDE = """\
import math

def grown(by, number):
    return math.floor(half(number)) + by

def half(number):
    return number / 2
"""


def test_the_module_beside_the_notebook_comes_along_with_a_partial_of_its_function(
    controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_us.py").write_text(BESIDE)
    monkeypatch.syspath_prepend(tmp_path)
    remote = smx.remote(functools.partial(importlib.import_module("beside_us").grown, 1))
    play = controller.on_submit

    def where_the_module_is_not(fake: ScriptedController, job: Any) -> None:
        monkeypatch.delitem(sys.modules, "beside_us")
        monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
        assert play is not None
        play(fake, job)

    controller.on_submit = where_the_module_is_not
    assert remote(5) == 3
    (job,) = controller.jobs.values()
    assert job.spec.imports == ("math",)


def test_a_method_is_called_with_its_object() -> None:
    assert Counter(4).plus(3).start == 7


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    @smx.remote
    def plus(self, number: int) -> Counter:
        return Counter(self.start + number)


def test_train_takes_a_function_without_arguments(controller: ScriptedController) -> None:
    base = 20
    job = smx.train(lambda: base + 1, name="digits")
    assert job.result(30).value == 21
    assert controller.jobs[job.id].spec.base_name == "digits"
    with pytest.raises(TypeError):
        smx.train(twice.__wrapped__)
