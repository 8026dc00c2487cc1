from __future__ import annotations

import asyncio
import pickle
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import jupyter_smx as smx
from jupyter_smx.kernel.api.session import Session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.failures.exceptions import JobFailed, JobStopped, StillRunning
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.records.job import Job as RecordOfJob
from jupyter_smx.model.results.reports import Difference, Why
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripted_controller import ScriptedController

    from jupyter_smx.kernel.handles.job import Job

SPEC = JobSpec(kind="train", source="x = 1", base_name="train", receive=("model",))


@pytest.fixture
def session(controller: ScriptedController) -> Iterator[Any]:  # noqa: ARG001 - it must be there first
    made = Session(None, autostart.client())
    yield made
    made.close()


@pytest.fixture
def job(session: Session) -> Any:
    return session.submit(SPEC)


def result_file(tmp_path: Path, **variables: Any) -> Any:
    path = tmp_path / "result.pkl"
    path.write_bytes(pickle.dumps({name: pickle.dumps(value) for name, value in variables.items()}))
    return Artifact(name="result.pkl", path=str(path), size=path.stat().st_size)


def test_a_handle_tells_where_its_job_is_now(job: Job, controller: ScriptedController) -> None:
    assert (job.status, job.secondary_status, job.done()) == ("InProgress", "Pending", False)
    controller.run(job.id)
    assert (job.status, job.secondary_status) == ("InProgress", "Training")
    assert repr(job) == f"<Job {job.name}: Training>"
    controller.end(job.id)
    assert (job.status, job.done()) == ("Completed", True)


def test_the_result_has_the_received_variables_by_key_attribute_and_index(
    job: Job, controller: ScriptedController, tmp_path: Path
) -> None:
    artifact = result_file(tmp_path, model=[1, 2])
    archive = Artifact(name="model.tar.gz", path="/some/model.tar.gz", size=1)
    controller.end(job.id, artifacts=(artifact, archive))
    assert job.result(10).model == job["model"] == [1, 2]
    assert job["model"] is job.result()["model"]
    assert str(job["model.tar.gz"]) == "/some/model.tar.gz"
    with pytest.raises(KeyError, match="Did you mean model"):
        job["modle"]
    with pytest.raises(KeyError, match="returned no variable or artifact 0"):
        job[0]
    assert [name in job for name in ("model", "model.tar.gz", "modle", 0)] == [True, True, False, False]


def lossy(*errors: str) -> tuple[HostEnd, ...]:
    return (HostEnd(host="algo-1", cause="exit", exit_code=0, errors=errors),)


FULL = "could not be kept: No space left on device. The disk of the job's log and results is full."
LEFT = "was not kept, because the process of the job ended before the end of its code."


@pytest.mark.parametrize("why", [FULL, LEFT])
def test_a_lost_variable_raises_with_its_reason_wherever_it_is_asked_for(
    job: Job, controller: ScriptedController, why: str
) -> None:
    controller.end(job.id, hosts=lossy(f"receive: 'model' {why}"))
    for ask in (job.result, lambda: job["model"], lambda: asyncio.run(awaited(job))):
        with pytest.raises(smx.MissingVariables) as raised:
            ask()
        assert str(raised.value) == f"{job.name} completed, but 'model' {why}"
        assert (raised.value.missing, raised.value.received) == ({"model": why}, {})
    assert job.status == "Completed"
    assert job.exception() is None


async def awaited(job: Job) -> Any:
    return await job


def test_a_variable_of_which_no_host_speaks_is_lost_as_well(job: Job, controller: ScriptedController) -> None:
    controller.end(job.id)
    with pytest.raises(smx.MissingVariables, match="'model' did not come back, and its hosts do not say why"):
        job.result()


def test_variables_that_came_are_there_beside_a_lost_one(
    session: Session, controller: ScriptedController, tmp_path: Path
) -> None:
    job = session.submit(replace(SPEC, receive=("model", "scores")))
    hosts = lossy(f"receive: 'scores' {FULL}")
    controller.end(job.id, hosts=hosts, received={"model": 1}, artifacts=(result_file(tmp_path, model=7),))
    assert job["model"] == 7
    with pytest.raises(smx.MissingVariables) as raised:
        job.result()
    assert raised.value.received == {"model": 7}


@pytest.mark.parametrize("why", ["is not defined at the end of the cell.", "cannot be pickled (TypeError: lock)."])
def test_a_variable_that_the_code_did_not_give_is_missing_and_not_lost(
    job: Job, controller: ScriptedController, why: str
) -> None:
    controller.end(job.id, hosts=lossy(f"receive: 'model' {why}"))
    assert job.result() == {}
    with pytest.raises(KeyError, match=re.escape(why)):
        job["model"]


def test_waiting_has_a_limit_and_leaves_the_job_alone(job: Job, controller: ScriptedController) -> None:
    with pytest.raises(TimeoutError, match="still running"):
        job.wait(0.05)
    assert controller.jobs[job.id].state is SecondaryStatus.PENDING
    assert "POST" not in " ".join(request for request in controller.requests if request.endswith("stop"))


def test_a_failed_job_raises_its_remote_exception_with_the_lines_of_the_cell(
    job: Job, controller: ScriptedController
) -> None:
    trace = 'Traceback (most recent call last):\n  File "<train>", line 3, in <module>\nKeyError: 1\n'
    exception = RemoteException(type="KeyError", message="1", traceback=trace, line=3)
    hosts = (
        HostEnd(host="algo-1", cause="signal", signal=15),
        HostEnd(host="algo-2", cause="exit", exit_code=1, exception=exception),
    )
    controller.end(job.id, SecondaryStatus.FAILED, hosts=hosts)
    with pytest.raises(JobFailed, match=r"KeyError: 1 \(line 3\)") as raised:
        job.result(10)
    assert raised.value.remote_traceback == trace
    assert raised.value._render_traceback_()[0] == trace.rstrip()
    assert isinstance(job.exception(), JobFailed)
    assert "failed" in repr(job)
    assert job.wait() is job


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (HostEnd(host="algo-1", cause="signal", signal=9), "SIGKILL terminated it on algo-1"),
        (HostEnd(host="algo-1", cause="exit", exit_code=7), "exit code 7 on algo-1"),
    ],
)
def test_a_job_that_failed_without_an_exception_says_how(
    job: Job, controller: ScriptedController, end: Any, sentence: str
) -> None:
    controller.end(job.id, SecondaryStatus.FAILED, hosts=(end,))
    with pytest.raises(JobFailed, match=sentence):
        job.result(10)


SIGTERM = RemoteException(type="SignalException", message="got signal: 15", traceback="")


@pytest.mark.parametrize(
    ("ours", "own", "reason"),
    [
        (
            HostEnd(host="algo-1", cause="stopped", signal=15),
            HostEnd(host="algo-2", cause="exit", exit_code=3),
            "AlgorithmError: Exit Code: 3",
        ),
        (
            HostEnd(host="algo-1", cause="stopped", exit_code=1, exception=SIGTERM),
            HostEnd(host="algo-2", cause="memory", signal=9),
            "out of memory. 3 GiB",
        ),
    ],
)
def test_the_host_that_we_ended_for_the_sake_of_another_is_not_blamed(
    job: Job, controller: ScriptedController, ours: HostEnd, own: HostEnd, reason: str
) -> None:
    controller.end(
        job.id,
        SecondaryStatus.FAILED,
        hosts=(ours, own),
        failure_reason=reason.replace("out of memory.", "AlgorithmError: OutOfMemory:"),
    )
    failure = job.exception(10)
    assert isinstance(failure, JobFailed)
    assert failure.remote is None
    assert reason in str(failure)
    assert "algo-1" not in str(failure)
    assert "SIGTERM" not in str(failure)


def test_a_stopped_job_says_so_and_a_job_over_its_time_says_that(
    session: Session, controller: ScriptedController
) -> None:
    stopped = session.submit(SPEC)
    stopped.stop()
    with pytest.raises(JobStopped, match="was stopped"):
        stopped.result()
    late = session.submit(SPEC)
    controller.end(late.id, SecondaryStatus.MAX_RUNTIME_EXCEEDED)
    with pytest.raises(JobStopped, match="maximum run time of 1 d"):
        late.result()


def test_ctrl_c_ends_the_waiting_and_not_the_job(
    job: Job, controller: ScriptedController, eventually_blocking: Any
) -> None:
    def interrupt() -> None:
        eventually_blocking(lambda: any(f"{job.id}?wait=" in target for target in controller.targets), "the wait")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(StillRunning, match="is still running"):
        job.wait(30)
    thread.join()
    assert controller.jobs[job.id].state is SecondaryStatus.PENDING
    assert job.status == "InProgress"


async def test_a_handle_is_awaited_without_blocking_the_loop(
    job: Job, controller: ScriptedController, tmp_path: Path
) -> None:
    waiting = asyncio.ensure_future(_await(job))
    assert await asyncio.wait_for(asyncio.sleep(0, "the loop is free"), 10) == "the loop is free"
    assert not waiting.done()
    controller.end(job.id, artifacts=(result_file(tmp_path, model=7),))
    assert (await asyncio.wait_for(waiting, 10)).model == 7
    assert (await job).model == 7


async def _await(job: Job) -> Any:
    return await job


async def test_a_job_that_somebody_deleted_is_not_awaited_for_ever(
    job: Job, session: Session, controller: ScriptedController
) -> None:
    again = session.attach(job.latest_record)
    controller.end(job.id)
    job.wait(10)
    controller.delete(job.id)
    with pytest.raises(ResourceNotFoundError):
        await asyncio.wait_for(_await(again), 5)


async def test_an_awaited_failure_raises(job: Job, controller: ScriptedController) -> None:
    controller.end(job.id, SecondaryStatus.FAILED, failure_reason="AlgorithmError")
    with pytest.raises(JobFailed, match="AlgorithmError"):
        await asyncio.wait_for(_await(job), 10)


def test_a_callback_comes_once_from_whoever_learns_first(job: Job, controller: ScriptedController) -> None:
    calls = []
    called = threading.Event()
    job.add_done_callback(lambda done: (calls.append(done), called.set()))
    controller.run(job.id)
    controller.end(job.id)
    job.wait(10)
    assert called.wait(10)
    assert job.status == "Completed"
    job.add_done_callback(calls.append)
    assert calls == [job, job]


def test_a_callback_that_raises_does_not_end_the_watching_of_other_jobs(
    session: Session, controller: ScriptedController, caplog: pytest.LogCaptureFixture, eventually_blocking: Any
) -> None:
    first, second = session.submit(SPEC), session.submit(SPEC)
    told = threading.Event()
    first.add_done_callback(lambda _: 1 / 0)
    second.add_done_callback(lambda _: told.set())
    controller.end(first.id)
    controller.end(second.id)
    assert told.wait(10)
    eventually_blocking(lambda: "ZeroDivisionError" in caplog.text, "the log")


def test_a_callback_that_raises_keeps_nothing_from_those_after_it_nor_from_who_waits(
    job: Job, controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()
    job.add_listener(lambda _: 1 / 0)
    job.add_done_callback(lambda _: int("no number"))
    job.add_done_callback(lambda _: told.set())
    controller.end(job.id)
    assert job.wait(10).latest_record.state is SecondaryStatus.COMPLETED
    assert told.wait(10)
    job.add_done_callback(lambda _: {}["at once"])
    assert [kind in caplog.text for kind in ("ZeroDivisionError", "ValueError", "KeyError")] == [True] * 3


def test_the_watcher_lives_through_the_death_of_a_controller(session: Session, controller: ScriptedController) -> None:
    job = session.submit(SPEC)
    told = threading.Event()
    job.add_done_callback(lambda _: told.set())
    controller.kill()
    controller.end(job.id)
    assert told.wait(20)


def test_waiting_lives_through_the_death_of_a_controller(job: Job, controller: ScriptedController) -> None:
    threading.Timer(0.05, controller.kill).start()
    threading.Timer(0.2, controller.end, (job.id,)).start()
    assert job.wait(20).status == "Completed"


def test_the_verdict_never_changes(job: Job, controller: ScriptedController) -> None:
    controller.end(job.id, SecondaryStatus.FAILED)
    assert job.status == "Failed"
    job.update(controller.end(job.id, SecondaryStatus.COMPLETED))
    assert job.status == "Failed"


def test_two_handles_of_one_job_are_equal(session: Session, job: Job) -> None:
    again = session.attach(session.client.job(job.name))
    assert again == job
    assert len({again, job}) == 1
    assert again != job.id


def test_logs_are_read_whole_and_by_host(session: Session, controller: ScriptedController) -> None:
    job = session.submit(SPEC)
    controller.write(job.id, "ünï\n" * 100_000)
    assert job.logs() == "ünï\n" * 100_000


def test_a_job_says_what_it_costs_however_many_came_after_it(job: Job, controller: ScriptedController) -> None:
    assert job.cost is None
    controller.costs[job.id] = 1.25
    newer = (f"{number:012x}" for number in range(201))
    controller.jobs |= {job_id: RecordOfJob(id=job_id, name=f"train-{job_id}", spec=SPEC) for job_id in newer}
    assert job.cost == 1.25


def test_why_names_each_pool_that_was_passed_over(job: Job, controller: ScriptedController) -> None:
    differs = Difference(pool="m5-1", field="role", wanted="a", found="b")
    controller.change(job.id, why=Why(start="cold", sentence="Cold.", differences=(differs,), notes=("slow disk",)))
    assert job.why == "Cold.\n  pool m5-1: role is b, the job needs a\n  slow disk"


def test_a_handle_without_a_controller_still_has_a_repr(
    job: Job, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job._client, "_start", lambda: (_ for _ in ()).throw(ConnectionRefusedError()))
    controller.kill()
    assert "last state Pending" in repr(job)


def test_a_job_that_somebody_deleted_is_let_go_and_the_others_are_watched(
    session: Session, controller: ScriptedController, eventually_blocking: Any
) -> None:
    deleted, other = session.submit(SPEC), session.submit(SPEC)
    told = threading.Event()
    other.add_done_callback(lambda _: told.set())
    controller.delete(deleted.id)
    controller.end(other.id)
    assert told.wait(10)
    watching = session.watcher
    eventually_blocking(
        lambda: (
            not any(
                deleted.id in held for held in (watching._handles_by_job, watching._summaries, watching._draw_times)
            )
        ),
        "it is let go, with all that was said of it",
    )


def test_news_that_was_dropped_before_anybody_asked_is_found_by_looking(
    job: Job, controller: ScriptedController, eventually_blocking: Any
) -> None:
    told = threading.Event()
    job.add_done_callback(lambda _: told.set())
    eventually_blocking(lambda: any("/v1/changes" in target for target in controller.targets), "the watcher waits")
    controller.change_unseen(job.id, state=SecondaryStatus.COMPLETED, ended_at=1.0)
    assert told.wait(10)


def test_a_kernel_whose_jobs_are_over_asks_for_nothing_more(
    job: Job, controller: ScriptedController, eventually_blocking: Any
) -> None:
    eventually_blocking(lambda: controller.guests() == 1, "the watcher waits")
    controller.end(job.id)
    job.wait(10)
    eventually_blocking(lambda: controller.guests() == 0, "nobody waits")


def test_a_flood_of_log_is_followed_to_its_last_byte(
    job: Job, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.write(job.id, "0123456789\n" * 60_000)
    controller.end(job.id)
    job.follow()
    assert len(capsys.readouterr().out) == 660_000
