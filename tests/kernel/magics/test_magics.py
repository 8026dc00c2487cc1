from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.failures.exceptions import JobFailed, MissingVariables, StillRunning
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from conftest import Screenshots
    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


def only_job(controller: ScriptedController) -> Any:
    (job,) = controller.jobs.values()
    return job


def complete(tmp_path: Path, errors: tuple[str, ...] = (), **variables: Any) -> Any:
    """Answer a submission at once: log, first line, result, verdict, and what the host says went wrong."""

    def play(controller: ScriptedController, job: Any) -> None:
        path = tmp_path / f"{job.id}.pkl"
        path.write_bytes(pickle.dumps({name: pickle.dumps(value) for name, value in variables.items()}))
        controller.run(job.id)
        controller.write(job.id, "epoch 1\nepoch 2\n")
        ended = HostEnd(host="algo-1", cause="exit", exit_code=0, errors=errors)
        controller.end(job.id, artifacts=(Artifact(name="result.pkl", path=str(path), size=1),), hosts=(ended,))

    return play


def run(shell: InteractiveShell, cell: str) -> Any:
    return shell.run_cell(cell)


@pytest.mark.usefixtures("front_end")
def test_a_cell_becomes_a_job_with_everything_that_the_line_says(
    shell: InteractiveShell, controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/Digits, final.ipynb")
    shell.user_ns["params"] = {"lr": 0.1}
    before = time.time()
    done = run(
        shell,
        "%%train -t ml.m5.xlarge -k 10m --as job \\\n  --hp lr={params['lr']} --hp name=adam --env A=b \\\n"
        "  --input train=data -o model=models --receive model --max-run 2h --role r\nimport os\nmodel = os.sep\n",
    )
    assert done.success
    spec = only_job(controller).spec
    assert shell.user_ns["job"].id == only_job(controller).id
    assert (spec.kind, spec.keep_alive, spec.max_run, spec.role) == ("train", 600, 7200, "r")
    assert spec.instances() == "ml.m5.xlarge × 1"
    assert spec.hyperparameters == {"lr": "0.1", "name": "adam"}
    assert spec.environment == {"A": "b"}
    assert spec.channels[0].source == str(tmp_path / "data")
    assert spec.outputs[0].destination == str(tmp_path / "models")
    assert spec.source == "\n\n\nimport os\nmodel = os.sep\n"
    assert (spec.base_name, spec.filename) == ("train-Digits-final", "<train-Digits-final>")
    assert (spec.imports, spec.receive) == (("os",), ("model",))
    assert (spec.python, spec.notebook) == (sys.executable, "/home/me/Digits, final.ipynb")
    assert spec.python_version == ".".join(map(str, sys.version_info[:2]))
    assert spec.working_directory == str(tmp_path)
    assert before <= spec.submitted_at <= time.time()


@pytest.mark.usefixtures("front_end")
def test_variables_are_sent_in_a_file_of_their_own(
    shell: InteractiveShell, controller: ScriptedController, data_folder: Path
) -> None:
    shell.user_ns["cfg"] = {"a": 1}
    assert run(shell, "%%process --send cfg\nprint(cfg)").success
    sent = only_job(controller).spec.send
    assert Path(sent.path).parent == data_folder / "payloads"
    assert payload.unpack(Path(sent.path)) == {"cfg": {"a": 1}}
    assert list(sent.sizes) == ["cfg"]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%%train --keep-alve 1m\nx", "Did you mean --keep-alive"),
        ("%%train -t ml.m5.xlrge\nx", "ml.m5.xlarge"),
        ("%%train -k never\nx", "'never' is not a duration"),
        ("%%train\nx = = 1", '"<train>", line 2'),
        ("%%train --send nothing\nx", "no variable 'nothing'"),
        ("%%train --send lock\nx", "lock is a _thread.lock"),
        ("%%train --hp lr={open('x')}\nx", "not a notebook variable"),
        ("%%train --as 3x\nx", "'3x' is not a valid variable name"),
        ("%%train --receive class\nx", "'class' is not a valid variable name"),
        ("%%train --name 'a b'\nx", "For example 'a-b'"),
        ("%%train -n 2 -g a:local:1\nx", "Remove one of the two"),
        ("%%train --env 2=3\nx", "is not a valid environment variable name"),
        ("%%process -i a=x -i a=y\nx", "a is given twice"),
        ("%%train --hp lr=1 --hp lr=2\nx", "--hp: lr is given twice"),
        ("%%train --env A=1 --env A=2\nx", "--env: A is given twice"),
        ("%smx jbs", "Did you mean jobs"),
    ],
)
def test_a_wrong_cell_shows_one_sentence_and_leaves_nothing(
    shell: InteractiveShell,
    front_end: Screenshots,
    controller: ScriptedController,
    data_folder: Path,
    capsys: pytest.CaptureFixture[str],
    cell: str,
    sentence: str,
) -> None:
    shell.user_ns["lock"] = threading.Lock()
    done = run(shell, cell)
    shown = capsys.readouterr().out
    assert isinstance(done.error_in_exec, ValidationError)
    assert sentence in shown
    assert "Traceback" not in shown
    assert ".py" not in shown.replace("ipynb", "")
    assert controller.jobs == {}
    assert front_end.shown == []
    assert not (data_folder / "payloads").exists()


@pytest.mark.usefixtures("front_end")
def test_ipython_leaves_braces_and_dollars_of_the_line_alone(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    shell.user_ns["x"] = "wrong"
    assert run(shell, "%%train --hp a='{x}' --env B=$x\npass").success
    spec = only_job(controller).spec
    assert (spec.hyperparameters, spec.environment) == ({"a": "{x}"}, {"B": "$x"})


def test_a_card_is_shown_at_once_and_kept_true_until_the_end(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, eventually_blocking: Any
) -> None:
    assert run(shell, "%%train --as job\npass").success
    first = front_end.shown[0]
    assert not first.get("update")
    job = only_job(controller)
    controller.run(job.id)
    eventually_blocking(
        lambda: front_end.cards()[-1]["summary"]["secondary_status"] == "Training", "the card says Training"
    )
    controller.write(job.id, "acc 0.97\n")
    controller.end(job.id)
    eventually_blocking(lambda: front_end.cards()[-1]["summary"]["ended_at"], "the last card")
    last = front_end.shown[-1]
    assert last["update"]
    assert last["transient"] == first["transient"] == {"display_id": f"smx-{job.id}"}
    assert front_end.cards()[-1]["tail"] == ["acc 0.97"]


def test_received_variables_are_bound_between_cells_and_not_in_the_middle_of_one(
    shell: InteractiveShell,
    front_end: Screenshots,
    controller: ScriptedController,
    tmp_path: Path,
    eventually_blocking: Any,
) -> None:
    assert run(shell, "%%train --receive model --as job\nmodel = 1").success
    shell.user_ns["model"] = "old"
    shell.user_ns["finish"] = lambda: complete(tmp_path, model="new")(controller, only_job(controller))
    shell.user_ns["wait_for_card"] = lambda: eventually_blocking(lambda: front_end.cards()[-1]["summary"]["ended_at"])
    assert run(shell, "finish(); wait_for_card(); in_the_cell = model").success
    assert shell.user_ns["in_the_cell"] == "old"
    assert shell.user_ns["model"] == "new"


@pytest.mark.usefixtures("front_end")
def test_with_wait_the_log_is_printed_and_the_variables_are_there_in_the_next_cell(
    shell: InteractiveShell, controller: ScriptedController, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controller.on_submit = complete(tmp_path, model="new")
    assert run(shell, "%%train --receive model --wait\nmodel = 1").success
    assert shell.user_ns["model"] == "new"
    assert "epoch 1\nepoch 2\n" in capsys.readouterr().out


def test_the_end_of_a_log_is_read_once_for_the_last_card(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController
) -> None:
    session.current_session().watcher.close()
    assert run(shell, "%%train --as job\npass").success
    job = shell.user_ns["job"]
    controller.write(job.id, "hello\n")
    controller.end(job.id)
    job.wait(20).notify_listeners()
    assert [card["tail"] for card in front_end.cards() if card["summary"]["ended_at"]] == [["hello"]]
    asked = [target for target in controller.targets if f"{job.id}/logs" in target]
    assert len(asked) == 2, "how long it is, then its end"


def test_a_variable_that_did_not_come_back_is_named(
    shell: InteractiveShell, controller: ScriptedController, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "receive: 'scores' is not defined at the end of the cell."
    controller.on_submit = complete(tmp_path, (said,), model="new")
    assert run(shell, "%%train --receive model,scores\nmodel = 1").success
    assert "'scores' is not defined at the end of the cell." in capsys.readouterr().err


def test_a_cell_that_waits_fails_where_its_job_lost_a_variable_and_binds_the_others(
    shell: InteractiveShell, controller: ScriptedController, tmp_path: Path
) -> None:
    said = "receive: 'scores' could not be kept: No space left on device."
    controller.on_submit = complete(tmp_path, (said,), model="new")
    done = run(shell, "%%train --receive model,scores\nmodel = 1")
    assert isinstance(done.error_in_exec, MissingVariables)
    assert "completed, but 'scores' could not be kept: No space left on device." in str(done.error_in_exec)
    assert shell.user_ns["model"] == "new"


def test_with_nobody_there_a_failed_job_fails_its_cell(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = 'Traceback (most recent call last):\n  File "<train>", line 2, in <module>\nKeyError: 1\n'

    def fail(fake: Any, job: Any) -> None:
        exception = RemoteException(type="KeyError", message="1", traceback=trace, line=2)
        ended = HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)
        fake.write(job.id, "before\n")
        fake.write(job.id, trace)
        fake.end(job.id, SecondaryStatus.FAILED, hosts=(ended,))

    controller.on_submit = fail
    done = run(shell, "%%train --receive model\n{}[1]")
    shown = capsys.readouterr().out
    assert isinstance(done.error_in_exec, JobFailed)
    assert shown.count('File "<train>", line 2') == 1, "the log has it, too, and once is enough"
    assert "before" in shown
    assert ".py" not in shown
    assert "model" not in shell.user_ns


@pytest.mark.usefixtures("tmp_path")
def test_the_log_of_several_hosts_is_told_apart(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(fake: Any, job: Any) -> None:
        fake.write(job.id, "one\ntwo", "algo-1")
        fake.write(job.id, "eins\n", "algo-2")
        fake.end(job.id)

    controller.on_submit = play
    assert run(shell, "%%train -n 2\npass").success
    assert "algo-1 | one\nalgo-1 | two" in (shown := capsys.readouterr().out)
    assert "algo-2 | eins\n" in shown


def test_a_plan_says_what_would_happen_and_nothing_does(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController, data_folder: Path
) -> None:
    shell.user_ns["cfg"] = 1
    assert run(shell, "%%train --plan --send cfg\npass").success
    assert "A cold start on local." in front_end.shown[0]["data"]["text/plain"]
    assert "Nothing was started." in front_end.shown[0]["data"]["text/plain"]
    assert controller.jobs == {}
    assert not (data_folder / "payloads").exists()


def test_a_plan_for_another_machine_says_which_variables_are_sent(
    shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController
) -> None:
    controller.remote_interpreters.add("far")
    shell.user_ns["cfg"] = bytes(5_000)
    assert run(shell, "%%train --engine far --plan --send cfg\npass").success
    shown = front_end.shown[0]["data"]["text/plain"]
    assert "Sent to the hosts, unless it is there already:\n  variables cfg: 4.9 KiB\n" in shown
    assert controller.jobs == {}


def test_help_is_the_manual(shell: InteractiveShell, front_end: Screenshots, controller: ScriptedController) -> None:
    assert run(shell, "%%train --help\npass").success
    assert "--keep-alive DURATION" in front_end.shown[0]["data"]["text/plain"]
    assert "--keep-alive DURATION" in shell.find_cell_magic("train").__doc__
    assert controller.jobs == {}


@pytest.mark.usefixtures("controller")
def test_a_terminal_gets_one_line(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMX_WAIT", "0")
    assert run(shell, "%%train\npass").success
    assert capsys.readouterr().out.startswith("● train-")


def test_options_complete_with_tab(shell: InteractiveShell) -> None:
    _, found = shell.complete("--keep", "%%train --keep")
    assert "--keep-alive" in found
    _, found = shell.complete("po", "%smx po")
    assert "pools" in found


@pytest.mark.usefixtures("controller")
def test_the_extension_can_be_unloaded_and_loaded_again(shell: InteractiveShell) -> None:
    shell.run_line_magic("unload_ext", "jupyter_smx")
    assert shell.find_cell_magic("train") is None
    shell.run_line_magic("load_ext", "jupyter_smx")
    assert shell.find_cell_magic("train") is not None


def test_ctrl_c_in_a_waiting_cell_says_that_the_job_goes_on(
    shell: InteractiveShell, controller: ScriptedController, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(fake: ScriptedController, job: Any) -> None:
        def when_the_log_is_asked_for() -> None:
            fake.wait_for(lambda: any(f"{job.id}/logs" in target for target in fake.targets), 10)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        threading.Thread(target=when_the_log_is_asked_for).start()

    controller.on_submit = interrupt
    done = run(shell, "%%train --as job --wait\npass")
    assert isinstance(done.error_in_exec, StillRunning)
    assert "is still running. Stop it with `%smx stop train-" in (shown := capsys.readouterr().out)
    assert "Traceback" not in shown
    assert shell.user_ns["job"].status == "InProgress"
