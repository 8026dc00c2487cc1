"""Bad wishes and bad code, typed into a shell: a sentence with the cure every time, and nothing spent."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from world import PATIENCE, failure, spec_of

from jupyter_smx import controller_launch
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.kernel.request.cell import CellSyntaxError
from jupyter_smx.model.errors import ResourceLimitError, ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell
    from world import World


@pytest.mark.parametrize(
    ("cell", "kind", "says"),
    [
        ("%%train --instnce-type local\nprint(1)", ValidationError, ["--instnce-type", "--instance-type"]),
        ("%%train --keep-alive soon\nprint(1)", ValidationError, ["keep-alive", "soon", "10m"]),
        ("%%train --hp lr\nprint(1)", ValidationError, ["--hp", "lr"]),
        ("%%train --as class\nprint(1)", ValidationError, ["--as", "class"]),
        ("%%train --send modl\nprint(1)", ValidationError, ["--send", "modl", "model"]),
        ("%%train --send locked\nprint(1)", ValidationError, ["--send", "locked", "lock"]),
        ("%%train --input =here\nprint(1)", ValidationError, ["--input"]),
        ("%%train\nfor x in [1, 2]\n    print(x)\n", CellSyntaxError, ["line 2", "':'"]),
        ("%%train\n!pip list\n", CellSyntaxError, ["line 2", "!pip"]),
    ],
)
def test_a_mistake_in_the_cell_costs_nothing(
    shell: InteractiveShell, cell: str, kind: type[Exception], says: list[str]
) -> None:
    shell.user_ns.update(model=1, locked={"inside": [threading.Lock()]})
    error = failure(shell, cell)
    assert isinstance(error, kind), repr(error)
    assert not [word for word in says if word not in str(error)], str(error)
    assert not controller_launch.is_listening(), "no controller was started for it"
    assert not (controller_launch.data_dir() / "controller.lock").exists()


def test_an_unknown_instance_type_is_answered_with_the_nearest(shared: World, warm_shell: InteractiveShell) -> None:
    before = len(shared.client.jobs(200))
    error = failure(warm_shell, "%%train --instance-type ml.m5.xlrge\nprint(1)")
    assert isinstance(error, ValidationError)
    assert "ml.m5.xlarge" in str(error)
    assert len(shared.client.jobs(200)) == before


def test_what_the_administrator_does_not_allow_is_refused_with_who_sets_it(
    world: World, configure: Callable[[str], None]
) -> None:
    configure(
        "c.ControllerApp.keep_alive_cap = 60\n"
        "c.ControllerApp.allowed_instance_types = ['local']\n"
        "c.ControllerApp.warm_pool_quota = {'local': 1}\n"
        "c.ControllerApp.max_jobs_queued = 2\n"
    )

    def refusal(**wish: Any) -> str:
        with pytest.raises(ResourceLimitError) as caught:
            world.client.submit("a" * 32, spec_of(world, **wish))
        return str(caught.value)

    assert "ControllerApp.keep_alive_cap" in refusal(keep_alive=61)
    assert "ControllerApp.allowed_instance_types" in refusal(
        instance_groups=(InstanceGroup(instance_type="ml.m5.xlarge"),)
    )
    assert "ControllerApp.max_hosts" in refusal(instance_groups=(InstanceGroup(instance_count=4),))
    assert world.client.jobs() == ()
    gate = world.gate()
    both = [world.submit(gate=gate, keep_alive=60) for _ in range(2)]
    assert "ControllerApp.max_jobs_queued" in refusal()
    gate.touch()
    ended = [job.wait() for job in both]
    assert [job.state for job in ended] == [SecondaryStatus.COMPLETED] * 2
    told = {job.warm_pool.status.value: job.warm_pool.reason for job in ended if job.warm_pool}
    assert told.keys() == {"Available", "Terminated"}
    assert "ControllerApp.warm_pool_quota" in told["Terminated"]
    assert "quota for warm local instances is 1" in told["Terminated"]
    assert [job.runs() for job in both] == [1, 1]


def test_code_that_raises_names_the_line_of_the_cell_and_keeps_the_pool(
    shared: World, warm_shell: InteractiveShell
) -> None:
    pool = shared.cluster()
    error = failure(warm_shell, "%%train --keep-alive 10m\nimport os\n\ndef lose():\n    return {}['key']\n\nlose()\n")
    assert isinstance(error, JobFailed)
    assert "KeyError" in str(error)
    assert "line 5" in error.remote_traceback
    assert "line 7" in error.remote_traceback
    assert "jupyter_smx" not in error.remote_traceback
    assert error.job.failure_text() == "AlgorithmError: KeyError: 'key'"
    (end,) = error.job.hosts
    assert (end.exit_code, end.exception.line if end.exception else None) == (1, 5)
    assert shared.run().why().startswith("Warm: ")
    assert shared.cluster() == pool


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        ("import sys; sys.exit(3)", "AlgorithmError: Exit Code: 3", 3),
        ("os.kill(os.getpid(), 11)", "AlgorithmError: The job was ended by signal 11 (SIGSEGV).", -11),
        ("os.kill(os.getpid(), 9)", "AlgorithmError: The job was ended by signal 9 (SIGKILL).", -9),
        ("os.abort()", "AlgorithmError: The job was ended by signal 6 (SIGABRT).", -6),
        ("open('/opt/ml/output/failure', 'w').write('too hot') and os._exit(1)", "AlgorithmError: too hot", None),
    ],
)
def test_code_that_ends_itself_is_told_as_that_and_keeps_the_pool(
    shared: World, body: str, words: str, code: int | None
) -> None:
    pool = shared.cluster()
    job = shared.submit(body.replace("/opt/ml/output/failure", "' + os.environ['SM_OUTPUT_DIR'] + '/failure"))
    ended = job.wait()
    assert (ended.state, ended.failure_text()) == (SecondaryStatus.FAILED, words)
    told = words if code is None else f'AlgorithmError: ExecuteUserScriptError:\nExitCode {code}\nErrorMessage ""\n'
    assert ended.failure_reason.startswith(told)
    assert job.runs() == 1
    assert job.log().startswith("begun\n")
    assert shared.cluster() == pool
    assert shared.pools()[0].state == "Available"


def test_a_variable_that_cannot_come_back_is_named_and_the_others_come(
    shared: World, warm_shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    del shared
    cell = "%%train --keep-alive 10m --receive good --receive bad\nimport threading\ngood = 7\nbad = threading.Lock()\n"
    assert failure(warm_shell, cell) is None
    assert failure(warm_shell, "pass") is None
    assert warm_shell.user_ns["good"] == 7
    assert "bad" not in warm_shell.user_ns
    assert "bad" in capsys.readouterr().err


def test_code_that_ignores_the_polite_end_gets_the_certain_one(shared: World) -> None:
    job = shared.submit(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('never', flush=True))\n"
        "print('deaf', flush=True)\n"
        "while True: time.sleep(0.01)"
    )
    job.until_it_says("deaf")
    shared.client.stop(job.id)
    ended = job.wait()
    assert ended.state is SecondaryStatus.STOPPED
    assert [end.signal for end in ended.hosts] == [signal.SIGKILL]
    assert "never" in job.log()
    assert job.runs() == 1
    assert shared.run().why().startswith("Warm: ")


def test_a_stop_lets_code_that_listens_end_in_its_own_way(shared: World) -> None:
    job = shared.submit(
        "import signal, time, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'saved'), os._exit(0)))\n"
        "print('listening', flush=True)\n"
        "while True: time.sleep(0.01)"
    )
    job.until_it_says("listening")
    shared.client.stop(job.id)
    assert job.wait().state in {SecondaryStatus.STOPPED, SecondaryStatus.COMPLETED}
    assert "saved" in job.log()


def test_a_daemon_that_code_leaves_behind_is_ended_and_named(shared: World) -> None:
    note = shared.folder / "daemon"
    job = shared.submit(
        f"""\
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            import time
            open({str(note)!r} + '.part', 'w').write(str(os.getpid()))
            os.rename({str(note)!r} + '.part', {str(note)!r})
            while True:
                time.sleep(1)
        import time
        while not os.path.exists({str(note)!r}):
            time.sleep(0.002)
        """
    )
    ended = job.wait()
    daemon = int(note.read_text())
    assert ended.state is SecondaryStatus.COMPLETED
    (end,) = ended.hosts
    assert any(str(daemon) in sentence and "was killed" in sentence for sentence in end.left_behind), end.left_behind
    assert process_scan.read_process(daemon) is None
    assert job.runs() == 1
    assert shared.run().why().startswith("Warm: ")


def test_an_input_that_is_not_there_is_the_wishes_fault_and_keeps_the_pool(
    shared: World, warm_shell: InteractiveShell
) -> None:
    pool = shared.cluster()
    error = failure(warm_shell, "%%train --keep-alive 10m --input train=/no/such/folder\nprint(1)")
    assert isinstance(error, JobFailed), repr(error)
    reason = error.job.failure_reason
    assert reason is not None
    assert reason.startswith("ClientError: "), reason
    assert "'/no/such/folder'" in reason, reason
    eventually_blocking(lambda: shared.pools()[0].state == "Available", "the pool is kept", within=PATIENCE)
    assert shared.cluster() == pool


def test_code_over_its_time_is_stopped_and_says_so(shared: World) -> None:
    job = shared.submit("import time\nwhile True: time.sleep(0.01)", max_run=1)
    ended = job.wait()
    assert ended.state is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert job.runs() == 1
