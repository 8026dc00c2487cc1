from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.records.event import PoolSummary
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.results.reports import Why

if TYPE_CHECKING:
    import msgspec
    from conftest import Terminal

KEEP = ("-k", "10m")
WAITS = "import os\nprint('begun', flush=True)\nopen(os.environ['SM_HP_GATE']).read()\nprint('done')\n"


def gate(terminal: Terminal, name: str) -> str:
    """Make a pipe that a job waits to be opened, in a folder of its own: a test may run again."""
    path = Path(tempfile.mkdtemp(dir=terminal.folder), name)
    os.mkfifo(path)
    return str(path)


def buffered() -> dict[str, str]:
    """Let the interpreter keep what it could not write, and try again at its end, as it does unless it is told."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def fields(struct: type[msgspec.Struct]) -> set[str]:
    return set(struct.__struct_fields__)


def test_a_script_runs_with_its_options_and_only_its_log_is_on_stdout(terminal: Terminal) -> None:
    done = terminal.run("run", "hello.py", *KEEP, "--hp", "n={3}", "--env", "GREETING=it's", "--name", "greet")
    assert done.returncode == 0
    assert done.stdout == "hello {3} it's\n"
    name, verdict = done.stderr.splitlines()
    assert verdict == f"{name}: Completed."
    assert name.startswith("greet-")


def test_the_end_says_where_the_model_is(terminal: Terminal) -> None:
    terminal.script("fit.py", "import os\nopen(os.environ['SM_MODEL_DIR'] + '/weights', 'w').close()\n")
    done = terminal.run("run", "fit.py", *KEEP)
    _, model, verdict = done.stderr.splitlines()
    path = model.removeprefix("Model: ").rpartition(" (")[0]
    assert path.endswith("/model.tar.gz")
    with tarfile.open(path) as archive:
        assert archive.getnames()[-1].endswith("weights")
    assert verdict.endswith(": Completed.")


def test_with_json_stdout_is_the_record_and_the_log_goes_to_stderr(terminal: Terminal) -> None:
    done = terminal.run("run", "--json", "hello.py", *KEEP, "--kind", "process")
    assert (done.returncode, done.stderr) == (0, "hello None None\n")
    record = json.loads(done.stdout)
    assert set(record) == fields(Job) | {"status", "secondary_status"}
    assert (record["status"], record["spec"]["kind"], record["spec"]["base_name"]) == ("Completed", "process", "hello")


def test_an_input_goes_in_by_a_path_from_here(terminal: Terminal) -> None:
    (terminal.folder / "data").mkdir()
    (terminal.folder / "data" / "a.txt").write_text("words")
    script = terminal.script("reads.py", "import os\nprint(open(os.environ['SM_CHANNEL_TRAIN'] + '/a.txt').read())\n")
    assert terminal.run("run", script, *KEEP, "--input", "train=data").stdout == "words\n"


@pytest.mark.parametrize("kind", ["train", "process"])
def test_a_script_keeps_its_name_as_on_sagemaker(terminal: Terminal, kind: str) -> None:
    told = "[sys.argv, os.path.basename(__file__), os.environ.get('SM_USER_ENTRY_POINT'), BASE]"
    told = told.replace("BASE", "os.environ.get('SAGEMAKER_BASE_DIR', '/opt/ml')")
    script = terminal.script("fit-digits.py", f"import json, os, sys\nprint(json.dumps({told}))\n")
    found = json.loads(terminal.run("run", script, *KEEP, "--kind", kind, "--hp", "a=1").stdout)
    name = "fit-digits.py" if kind == "train" else None
    started = "fit-digits.py" if kind == "train" else f"{found[3]}/processing/input/code/fit-digits.py"
    assert found[:3] == [[started, "-a", "1"], "fit-digits.py", name]


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        ("import sys\nsys.exit(7)", 7, "Exit Code: 7"),
        ("x = 0\n1 / x", 1, "ZeroDivisionError: division by zero (fails.py, line 2)"),
        ("import os\nos.kill(os.getpid(), 9)", 137, "SIGKILL terminated it on algo-1"),
    ],
)
def test_a_script_that_fails_gives_its_own_code(terminal: Terminal, code: str, expected: int, said: str) -> None:
    script = terminal.script("fails.py", code)
    done = terminal.run("run", script, *KEEP)
    assert done.returncode == expected
    assert said in done.stderr
    assert "jupyter_smx" not in done.stdout + done.stderr


def test_a_failure_as_json_is_a_record_and_no_error(terminal: Terminal) -> None:
    done = terminal.run("run", terminal.script("fails.py", "import sys\nsys.exit(7)"), *KEEP, "--json")
    assert (done.returncode, done.stderr) == (7, "")
    record = json.loads(done.stdout)
    assert (record["status"], record["hosts"][0]["exit_code"]) == ("Failed", 7)


def test_no_document_has_the_value_of_a_secret(terminal: Terminal) -> None:
    script = terminal.script("told.py", "import os\nprint(len(os.environ['HF_TOKEN']))\n")
    done = terminal.run("run", script, *KEEP, "--json", "--env", "HF_TOKEN=hunter2", "--env", "TOKENIZERS=1")
    assert json.loads(done.stdout)["spec"]["environment"] == {"HF_TOKEN": "", "TOKENIZERS": "1"}
    assert "7" in done.stderr.split(), "the job has it"
    assert "hunter2" not in done.stdout + done.stderr


def test_nor_has_that_of_a_job_that_is_interrupted_stopped_or_run_again(alone: Terminal) -> None:
    script = alone.script("hides.py", "import signal\nprint('begun', flush=True)\nsignal.pause()\n")
    name = alone.document("run", script, *KEEP, "--spot", "--env", "HF_TOKEN=hunter2", "--detach")["name"]
    client = autostart.client()
    client.wait(name, 30, "first_line")
    said = [alone.document(word, name) for word in ("interrupt", "stop")]
    said.append(alone.document("rerun", name, "--detach"))
    alone.document("stop", said[-1]["name"])
    assert [one["spec"]["environment"] for one in said] == [{"HF_TOKEN": ""}] * 3
    assert "hunter2" not in json.dumps(said)
    assert client.job(name).spec.environment == {"HF_TOKEN": "hunter2"}
    assert {client.wait(one["name"], 30).status().value for one in said} == {"Stopped"}
    client.close()


def test_ctrl_c_leaves_the_job_running_and_a_stopped_job_has_its_code(terminal: Terminal) -> None:
    script = terminal.script("waits.py", WAITS)
    path = gate(terminal, "interrupted")
    first = terminal.start("run", script, *KEEP, "--hp", f"gate={path}")
    assert first.stdout is not None
    assert first.stdout.readline() == "begun\n"
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=30)
    name = said.split()[0]
    assert first.returncode == 130
    assert (
        f"{name} is still running. Stop it with `jupyter smx stop {name}`, follow it with `jupyter smx logs {name} -f`."
        in said
    )
    assert terminal.document("jobs", "--status", "inprogress")["jobs"][0]["name"] == name
    follower = terminal.start("logs", name, "-f", "--json")
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline()) == {"host": "algo-1", "line": "begun"}
    Path(path).write_text("")
    rest, _ = follower.communicate(timeout=30)
    assert (json.loads(rest), follower.returncode) == ({"host": "algo-1", "line": "done"}, 0)


def test_the_command_lives_through_the_death_of_the_controller(alone: Terminal) -> None:
    path = gate(alone, "gate")
    runs = alone.start("run", alone.script("waits.py", WAITS), "--hp", f"gate={path}")
    assert runs.stdout is not None
    assert runs.stdout.readline() == "begun\n"
    client = autostart.client()
    os.kill(client.controller_info().pid, signal.SIGKILL)
    client.close()
    Path(path).write_text("")
    rest, said = runs.communicate(timeout=30)
    assert (runs.returncode, rest) == (0, "done\n"), said


def test_a_job_that_somebody_stops_ends_the_command_with_three(terminal: Terminal) -> None:
    path = gate(terminal, "stopped")
    runs = terminal.start("run", terminal.script("waits.py", WAITS), *KEEP, "--hp", f"gate={path}", "--name", "stops")
    assert runs.stdout is not None
    assert runs.stdout.readline() == "begun\n"
    record = terminal.document("stop", "stops")
    assert set(record) == fields(Job) | {"status", "secondary_status"}
    assert record["goal"] == "stop"
    _, said = runs.communicate(timeout=30)
    assert runs.returncode == 3
    assert "was stopped." in said
    assert terminal.run("stop", "stops").stdout.endswith(": Stopped.\n")


def test_detach_prints_the_name_and_comes_back(terminal: Terminal) -> None:
    path = gate(terminal, "detached")
    done = terminal.run("run", terminal.script("waits.py", WAITS), *KEEP, "--detach", "--hp", f"gate={path}")
    assert (done.returncode, done.stderr) == (0, "")
    name = done.stdout.strip()
    client = autostart.client()
    assert client.wait(name, 30, "first_line").status().value == "InProgress"
    Path(path).write_text("")
    followed = terminal.run("logs", "-f", name)
    assert (followed.returncode, followed.stdout) == (0, "begun\ndone\n")
    assert client.wait(name, 30).status().value == "Completed"
    client.close()


def test_the_name_of_a_detached_job_is_in_its_json(terminal: Terminal) -> None:
    name = terminal.document("run", "hello.py", *KEEP, "--detach")["name"]
    assert terminal.run("logs", "-f", name).stdout == "hello None None\n"


def test_a_job_runs_again(terminal: Terminal) -> None:
    script = terminal.script("fails.py", "import sys\nprint('once more')\nsys.exit(7)")
    terminal.run("run", script, *KEEP, "--name", "again")
    terminal.script("fails.py", "print('another script')")
    done = terminal.run("rerun", "again")
    assert (done.returncode, done.stdout) == (7, "once more\n")
    record = terminal.document("rerun", "again", "--detach")
    assert record["spec"]["base_name"] == "again"
    assert terminal.run("logs", "-f", record["name"]).stdout == "once more\n"


@pytest.mark.parametrize("words", [("plan", "hello.py", *KEEP), ("run", "hello.py", *KEEP, "--plan")])
def test_a_plan_says_what_would_happen_and_starts_nothing(terminal: Terminal, words: tuple[str, ...]) -> None:
    before = terminal.document("jobs", "--limit", "1")
    done = terminal.run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Warm: ")
    assert done.stdout.endswith("Nothing was started.\n")
    plan = terminal.document(*words)
    assert set(plan) == {"sentence", "why", "engine_request", "sent"}
    assert plan["sent"] == []
    assert set(plan["why"]) == fields(Why)
    assert terminal.document("jobs", "--limit", "1") == before


def test_jobs_are_listed_by_status_and_up_to_a_limit(terminal: Terminal) -> None:
    terminal.run("run", "hello.py", *KEEP)
    text = terminal.run("jobs", "--status", "completed", "--limit", "1").stdout
    head, row = text.splitlines()
    assert (head.split()[0], row.split()[1]) == ("JOB", "Completed")
    listed = terminal.document("jobs", "--limit", "2")
    assert [set(job) for job in listed["jobs"]] == [fields(JobSummary)] * 2
    assert terminal.run("jobs", "--status", "Stopping").stdout == "No job is Stopping.\n"
    assert terminal.document("jobs", "--status", "Stopping") == {"jobs": [], "arrays": []}


def test_logs_are_read_by_name_and_for_the_newest_job(terminal: Terminal) -> None:
    assert terminal.run("logs", "first").stdout == "hello None None\n"
    terminal.run("run", terminal.script("says.py", "import sys\nsys.stdout.write('a\\nb')"), *KEEP)
    assert terminal.run("logs").stdout == "a\nb"
    lines = terminal.run("logs", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"host": "algo-1", "line": word} for word in "ab"]
    for words in (("logs", "--tail", "1"), ("logs", "-f", "--tail=1")):
        assert terminal.run(*words).stdout == "b"
        assert json.loads(terminal.run(*words, "--json").stdout) == {"host": "algo-1", "line": "b"}


def test_each_of_several_hosts_has_its_log(terminal: Terminal) -> None:
    script = terminal.script("host.py", "import os\nprint(os.environ['SM_CURRENT_HOST'])\n")
    done = terminal.run("run", script, "-n", "2", "--name", "two")
    assert sorted(done.stdout.splitlines()) == ["algo-1 | algo-1", "algo-2 | algo-2"]
    assert terminal.run("logs", "two", "--host", "algo-2").stdout == "algo-2\n"
    assert terminal.run("logs", "two", "-f", "--host", "algo-2").stdout == "algo-2\n"
    lines = terminal.run("logs", "two", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"host": name, "line": name} for name in ("algo-1", "algo-2")]
    wrong = terminal.run("logs", "two", "--host", "algo-3")
    assert wrong.returncode == 2
    assert "It is one of algo-1, algo-2." in wrong.stderr


def test_why_answers(terminal: Terminal) -> None:
    assert terminal.run("why", "first").stdout.startswith("Cold: ")
    answer = terminal.document("why", "first")
    assert set(answer) == fields(Why)
    assert answer["start"] == "cold"


def test_pools_are_listed_extended_and_released(terminal: Terminal) -> None:
    terminal.run("run", "hello.py", "-t", "ml.t3.medium", "-k", "1m", "--name", "other")
    assert terminal.run("pools").stdout.splitlines()[0].startswith("POOL")
    pools = terminal.document("pools")["pools"]
    assert [set(pool) for pool in pools] == [fields(PoolSummary)] * 2
    other = next(pool for pool in pools if pool["instances"].startswith("ml.t3.medium"))
    assert terminal.run("extend", other["name"], "15m").stdout == f"{other['name']} expires in 15 min.\n"
    extended = terminal.document("extend", other["name"], "20m")
    assert extended["expires_at"] > other["expires_at"] + 900
    assert set(extended) == fields(PoolSummary)
    released = terminal.document("release", other["name"])
    assert (released["id"], set(released)) == (other["id"], fields(PoolSummary))
    terminal.run("run", "hello.py", "-t", "ml.t3.medium", "-k", "1m", "--name", "another")
    known = {pool["id"] for pool in pools}
    (fresh,) = (pool["name"] for pool in terminal.document("pools")["pools"] if pool["id"] not in known)
    assert terminal.run("extend", fresh, "0").stdout == f"{fresh}: Releasing.\n"
    assert terminal.run("release", "nobody").returncode == 1


def test_the_doctor_has_one_page(terminal: Terminal) -> None:
    text = terminal.run("doctor").stdout
    assert "data folder: " in text
    assert "already running" in text
    told = terminal.document("doctor")
    assert told["data_folder"] == os.environ["JUPYTER_SMX_DATA_DIR"]
    assert told["controller"]["engines"]["local"]
    assert "removed" not in told
    assert "local" not in terminal.document("doctor", "--fix")["removed"]


def test_what_the_controller_refuses_is_a_sentence_or_an_error_body(terminal: Terminal) -> None:
    done = terminal.run("why", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no job 'nobody'" in done.stderr
    done = terminal.run("run", "hello.py", "-t", "ml.m5.xlrge", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    body = json.loads(done.stderr)
    assert (body["code"], body["field"]) == ("ValidationException", "instance_type")
    assert "ml.m5.xlarge" in body["cure"]


def test_the_command_of_jupyter_finds_us(terminal: Terminal) -> None:
    jupyter = (str(Path(sys.executable).with_name("jupyter")), "smx")
    done = terminal.run("--version", command=jupyter)
    assert (done.returncode, done.stdout[:12]) == (0, "jupyter smx ")


def test_a_reader_that_went_away_ends_the_command_quietly(terminal: Terminal) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = terminal.run("jobs", stdout=writer, env=buffered())
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_under_the_output_is_a_sentence(terminal: Terminal) -> None:
    with Path("/dev/full").open("w") as full:
        done = terminal.run("jobs", stdout=full, env=buffered())
    assert (done.returncode, done.stderr) == (1, "The output cannot be written: No space left on device.\n")


def test_words_that_the_encoding_lacks_are_escaped(terminal: Terminal) -> None:
    script = terminal.script("unicode.py", "print('日本 ×')\n")
    plain: dict[str, Any] = {"env": os.environ | {"PYTHONIOENCODING": "ascii"}}
    done = terminal.run("run", script, *KEEP, **plain)
    assert (done.returncode, done.stdout) == (0, "\\u65e5\\u672c \\xd7\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("jupyter-smx lo", {"logs"}),
        ("jupyter smx why fir", {"first-"}),
        ("jupyter-smx run hello.py --ke", {"--keep-alive"}),
        ("jupyter-smx run -t ml.t3.m", {"ml.t3.medium"}),
        ("jupyter-smx jobs --status Comp", {"Completed"}),
        ("jupyter-smx logs first-", {"first-"}),
        ("jupyter-smx release ", {"local-"}),
    ],
)
def test_tab_completes_words_and_names(terminal: Terminal, line: str, expected: set[str]) -> None:
    pytest.importorskip("argcomplete")
    answer = terminal.folder / "completions"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    command = (str(Path(sys.executable).with_name(line.split(maxsplit=1)[0])),)
    terminal.run(command=command, env=os.environ | asked | {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer)})
    found = {word.strip() for word in answer.read_text().splitlines()}
    assert all(any(word.startswith(start) for word in found) for start in expected)
    assert len(found) == 1 or line.endswith(" ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_gets_what_it_loads(terminal: Terminal, shell: str) -> None:
    pytest.importorskip("argcomplete")
    assert "jupyter-smx" in terminal.run("completion", shell).stdout


def test_a_spot_job_loses_its_hosts_to_a_command_and_another_job_does_not(terminal: Terminal) -> None:
    path = gate(terminal, "spot")
    script = terminal.script("waits.py", WAITS)
    runs = terminal.start("run", script, "--spot", "--hp", f"gate={path}", "--name", "spots")
    assert runs.stdout is not None
    assert runs.stdout.readline() == "begun\n"
    assert terminal.document("interrupt", "spots")["state"] == "Interrupted"
    assert runs.stdout.readline() == "--- attempt 2 ---\n"
    assert runs.stdout.readline() == "begun\n"
    Path(path).write_text("")
    rest, said = runs.communicate(timeout=30)
    assert (runs.returncode, rest) == (0, "done\n"), said
    assert "Managed Spot Training savings: " in said
    refused = terminal.run("interrupt", "first")
    assert refused.returncode == 2
    assert "is not a spot job" in refused.stderr


SLOW_IMPORTS = ("asyncio", "importlib.metadata", "importlib.resources")


def test_a_command_imports_no_event_loop_and_no_package_metadata() -> None:
    code = f"import sys, jupyter_smx.cli; print([name for name in {SLOW_IMPORTS} if name in sys.modules])"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert started.stdout == "[]\n"
