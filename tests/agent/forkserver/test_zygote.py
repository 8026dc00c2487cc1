"""What is imported before a job comes, and what a fork must not carry into it; both ways to start a child."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from far_side import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Give a folder from which zygotes can import: an installer keeps its notes there."""
    folder = tmp_path / "modules"
    (folder / "installed-1.0.dist-info").mkdir(parents=True)
    record = "\n".join(f"{name}.py,," for name in ("mine", "slow", "first", "second"))
    (folder / "installed-1.0.dist-info" / "RECORD").write_text(record)
    (folder / "installed-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n"
    )
    return folder


@pytest.fixture
def preload(start_agent: Callable[..., Agent], modules: Path) -> Callable[..., Agent]:
    """Start an agent, wait for its preloads and put the news on it as ``preload_event``."""

    def start(*names: str, **changes: Any) -> Agent:
        agent = start_agent(preload=list(names), environment={"PYTHONPATH": str(modules)}, **changes)
        told = agent.greeting["preload"]
        agent.news = agent.client.event("preload") if told["pending"] else told  # type: ignore[attr-defined]
        return agent

    return start


METHODS = pytest.mark.parametrize("method", ["fork", "spawn"])


@METHODS
def test_a_preload_is_loaded_before_the_job_begins(preload: Callable[..., Any], modules: Path, method: str) -> None:
    (modules / "slow.py").write_text("import os\nborn = os.getpid()\n")
    agent = preload("slow", start_method=method)
    assert (agent.news["loaded"], agent.news["failed"], agent.news["pending"]) == (["slow"], {}, [])
    seen = agent.json("import sys, json\nprint(json.dumps('slow' in sys.modules))")
    assert seen is True


@METHODS
def test_bug_04_a_preload_that_fails_is_told_with_its_reason(
    preload: Callable[..., Any], modules: Path, method: str
) -> None:
    (modules / "broken.py").write_text("raise RuntimeError('no licence')\n")
    (modules / "good.py").write_text("")
    agent = preload("broken", "no_such_module", "good", start_method=method)
    assert agent.news["loaded"] == ["good"], agent.news
    assert agent.news["failed"]["broken"] == "RuntimeError: no licence"
    assert "No module named" in agent.news["failed"]["no_such_module"]
    assert agent.run("import sys; print('good' in sys.modules)")["text"] == "True\n"


@pytest.mark.parametrize(
    ("spoiler", "reason"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "thread"),
        ("import subprocess\nsubprocess.Popen(['sleep', '99'])", "started a process"),
        ("import socket\nkeep = socket.socket()", "opened a socket"),
    ],
)
def test_a_module_that_is_unfit_to_be_forked_is_left_out_and_the_others_are_tried_again(
    preload: Callable[..., Any], modules: Path, spoiler: str, reason: str
) -> None:
    (modules / "spoiler.py").write_text(spoiler)
    (modules / "good.py").write_text("")
    agent = preload("good", "spoiler")
    assert agent.news["loaded"] == ["good"]
    assert reason in agent.news["failed"]["spoiler"]
    assert agent.run("import sys; print('spoiler' in sys.modules)")["text"] == "False\n"


def test_a_module_that_ends_its_process_does_not_end_the_host(preload: Callable[..., Any], modules: Path) -> None:
    (modules / "crash.py").write_text("import os\nos._exit(9)\n")
    agent = preload("crash")
    assert "exited" in agent.news["failed"]["crash"]
    assert agent.run("print('alive')")["text"] == "alive\n"


def test_a_computation_that_hangs_in_a_fork_is_found_before_a_job_does(
    preload: Callable[..., Any], modules: Path
) -> None:
    (modules / "numpy.py").write_text(
        "import os, signal\nborn = os.getpid()\ndef ones(shape):\n    while os.getpid() != born: signal.pause()\n"
    )
    (modules / "good.py").write_text("")
    agent = preload("numpy", "good", start_method="fork")
    assert "hangs" in agent.news["failed"]["numpy"]


def test_modules_can_be_learnt_while_jobs_run(agent: Agent) -> None:
    job, lease = agent.start("import signal\nprint('on', flush=True)\nwhile True: signal.pause()")
    agent.wait_for_log(job, "on")
    assert agent.client.ask("preload", modules=["decimal"])["ok"]
    assert agent.client.event("preload")["loaded"] == ["decimal"]
    agent.stop(job, lease)
    assert agent.end_of(job)["cause"] == "stopped"
    assert agent.run("import sys; print('decimal' in sys.modules)")["text"] == "True\n"
    agent.client.ask("preload", modules=["fractions"])
    assert agent.client.event("preload")["loaded"] == ["decimal", "fractions"]


def test_a_zygote_that_grew_a_thread_is_replaced_before_the_next_fork(
    preload: Callable[..., Any], modules: Path, wait_until: Callable[..., Any]
) -> None:
    (modules / "late.py").write_text(
        "import signal, threading, time\n"
        "def grow(*_):\n    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "signal.signal(signal.SIGUSR2, grow)\n"
    )
    agent = preload("late")
    (old,) = wait_until(lambda: one if len(one := agent.zygotes()) == 1 else None, "one zygote is left")
    os.kill(old, 12)
    # Where it was asked for another process meanwhile it is gone already.
    wait_until(lambda: len(list(Path("/proc").glob(f"{old}/task/*"))) != 1, "it has a second thread")
    for _ in range(3):
        assert agent.run("import threading; print(threading.active_count())")["text"] == "1\n"
    wait_until(lambda: old not in agent.zygotes(), "it is gone")


def test_bug_05_what_the_zygote_printed_is_in_no_job(preload: Callable[..., Any], modules: Path) -> None:
    (modules / "chatty.py").write_text("import sys\nsys.stdout.write('once in a zygote')\n")
    agent = preload("chatty")
    assert [agent.run("print(1)")["text"] for _ in range(3)] == ["1\n"] * 3
    assert (agent.folder / "agent.log").read_text().count("once in a zygote") == 1


@METHODS
def test_bug_21_random_numbers_differ_in_every_job(preload: Callable[..., Any], method: str) -> None:
    agent = preload("random", "uuid", "tempfile", "numpy", start_method=method)
    source = """
import json, numpy, random, tempfile, uuid
print(json.dumps([random.random(), float(numpy.random.random()), float(numpy.random.default_rng().random()),
                  str(uuid.uuid4()), tempfile.mktemp()]))
"""
    columns = zip(*(agent.json(source) for _ in range(4)), strict=True)
    assert [len(set(column)) for column in columns] == [4] * 5


def test_bug_23_numeric_libraries_use_the_threads_of_the_host(preload: Callable[..., Any]) -> None:
    agent = preload("numpy", threads=3)
    source = """
import json, os
from threadpoolctl import threadpool_info
import numpy
print(json.dumps([[one["num_threads"] for one in threadpool_info()],
                  [os.environ[n] for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")],
                  os.environ["SM_NUM_CPUS"]]))
"""
    pools, variables, cpus = agent.json(source)
    assert pools
    assert set(pools) == {3}
    assert (variables, cpus) == (["3", "3", "3"], "3")
    pools, variables, _cpus = agent.json(source, environment={"OMP_NUM_THREADS": "1"})
    assert set(pools) == {1}
    assert variables[0] == "1"


@pytest.mark.parametrize("preloaded", [(), ("numpy", "sklearn.cluster")], ids=["imported by the job", "preloaded"])
def test_bug_23_a_job_with_two_cpus_has_two_threads_of_blas_and_of_openmp(
    start_agent: Callable[..., Agent], preloaded: tuple[str, ...]
) -> None:
    pytest.importorskip("sklearn")
    agent = start_agent(preload=list(preloaded), threads=2)
    if preloaded:
        assert agent.client.event("preload")["loaded"] == list(preloaded)
    source = """
import json, os, sys
there = "sklearn" in sys.modules
import numpy, sklearn.cluster
from threadpoolctl import threadpool_info
square = numpy.ones((600, 600))
for _ in range(3): square @ square
sklearn.cluster.KMeans(2, n_init=1).fit(square[:50, :2] + numpy.arange(50)[:, None])
found = {one["user_api"]: one["num_threads"] for one in threadpool_info()}
print(json.dumps([there, found, len(os.listdir("/proc/self/task"))]))
"""
    there, pools, threads = agent.json(source)
    assert there == bool(preloaded)
    assert pools == {"blas": 2, "openmp": 2}
    assert threads <= 4, "the main thread, and one more of each library"


@METHODS
def test_bug_15_the_wish_reaches_the_job_and_not_its_parked_process(
    start_agent: Callable[..., Agent], method: str
) -> None:
    agent = start_agent(start_method=method)
    agent.run("pass", environment={"SECRET": "of-the-first"})
    for seen in agent.processes():
        assert not seen.has_variable("SECRET=of-the-first")
    assert agent.json("import os, json; print(json.dumps(os.environ.get('SECRET')))") is None


def test_a_spawned_child_is_as_good_as_a_forked_one(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(start_method="spawn")
    assert agent.greeting["start_method"] == "spawn"
    record = agent.run("import os, sys\nprint(os.getsid(0) == os.getpid(), sys.argv[0])\nraise ValueError('x')")
    assert record["text"].startswith("True train.py\n")
    assert record["exception"]["line"] == 3
    job, lease = agent.start("import signal\nprint('on', flush=True)\nwhile True: signal.pause()")
    agent.wait_for_log(job, "on")
    agent.stop(job, lease)
    assert agent.end_of(job)["cause"] == "stopped"


def test_the_interpreter_of_jobs_is_the_one_of_the_agent(agent: Agent) -> None:
    seen = agent.json("import sys, json; print(json.dumps([sys.executable, sys.prefix, sys.flags.isolated]))")
    assert seen == [sys.executable, sys.prefix, 0]


def test_pools_of_processes_work_in_a_job(agent: Agent) -> None:
    source = """
import multiprocessing, subprocess, sys
def square(x):
    return x * x
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(square, [1, 2, 3]))
"""
    assert agent.run(source)["text"] == "[1, 4, 9]\n[1, 4, 9]\n"


def test_the_record_names_what_a_zygote_could_import_next_time(preload: Callable[..., Any], modules: Path) -> None:
    (modules / "mine.py").write_text("")
    agent = preload()
    assert "mine" in agent.run("import mine, json")["modules"]


def test_what_is_asked_for_while_something_is_tried_comes_after_it_and_what_came_with_it_is_not_tried(
    start_agent: Callable[..., Agent], modules: Path
) -> None:
    (modules / "first.py").write_text("import part_of_first\n")
    (modules / "part_of_first.py").write_text("")
    (modules / "second.py").write_text("")
    agent = start_agent(environment={"PYTHONPATH": str(modules)})
    agent.client.ask("preload", modules=["first"])
    agent.client.ask("preload", modules=["second", "part_of_first", "first"])
    assert agent.client.event("preload")["loaded"] == ["first"]
    assert agent.client.event("preload")["loaded"] == ["first", "second"]
    agent.client.ask("preload", modules=["part_of_first", "second"])
    assert agent.run("import sys; print('second' in sys.modules)")["text"].strip() == "True"
    assert agent.client.ask("hello", protocol=1, epoch=1)["preload"]["pending"] == []


def test_in_a_series_of_jobs_a_second_child_is_parked_meanwhile_and_sees_nothing_of_the_job_before(
    agent: Agent, wait_until: Callable[..., Any]
) -> None:
    for _ in range(3):
        agent.run("pass")
    wait_until(lambda: count(f"{agent.folder}/slots") == 2, "two children are parked")
    agent.run("import os; open('left', 'w').close(); os.environ['LEFT'] = '1'; os.chdir('/')")
    look = "import os; print(os.path.exists('left'), 'LEFT' in os.environ, os.path.basename(os.getcwd()))"
    for _ in range(2):
        assert agent.run(look)["text"].split() == ["False", "False", "code"]


def test_a_job_goes_on_to_be_told_while_its_process_imports_and_nobody_else_waits(
    start_agent: Callable[..., Agent], modules: Path, wait_until: Callable[..., Any]
) -> None:
    """What is more than a socket holds stopped the whole host for five seconds, and then the job was refused."""
    begun, gate = modules / "begun", modules / "gate"
    os.mkfifo(gate)
    (modules / "slow.py").write_text(f"open({str(begun)!r}, 'w').close()\nopen({str(gate)!r}).close()\n")
    agent = start_agent(preload=["slow"], environment={"PYTHONPATH": str(modules)}, start_method="spawn")
    wait_until(begun.exists, "the next job's process imports")
    job, _lease = agent.start(f"text = '{'x' * (4 << 20)}'\nprint(len(text))")
    assert agent.client.ask("ping")["ok"]
    gate.open("w").close()
    record = agent.end_of(job)
    assert (record["cause"], agent.log(job)) == ("exit", f"{4 << 20}\n"), record
