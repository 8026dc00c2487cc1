"""Code that ends in every possible way, and harms whatever it can: the record is true, and the next job runs."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from far_side import PATIENCE

from jupyter_smx.agent.code import variable_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

KILL, SEGV, ABRT = signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT
DEEP = "import sys\nsys.setrecursionlimit(10**8)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)"
LEAF = "class Leaf(BaseException): pass\n"
NO_TEXT = "class Mute:\n    def __str__(self): raise ValueError('mute')\n"


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


# How the code ended: the source; the exit code or the signal; the exception's type; a text in the log.
ENDS: dict[str, tuple[str, int | signal.Signals, str, str]] = {
    "os._exit": ("import os\nprint('said')\nos._exit(7)", 7, "", "said"),
    "segmentation fault": ("import ctypes\nprint('said')\nctypes.string_at(0)", SEGV, "", "said"),
    "abort": ("import os\nprint('said')\nos.abort()", ABRT, "", "said"),
    "endless recursion": ("def f(): f()\nf()", 1, "RecursionError", "maximum recursion depth"),
    "the end of the C stack": (DEEP, SEGV, "", ""),
    "more terms than Python compiles": ("x = " + "+".join(["x"] * 20_000), 1, "RecursionError", "RecursionError"),
    "deeper than Python parses": ("x = " + "-" * 100_000 + "1", 1, "MemoryError", "MemoryError"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", 1, "KeyboardInterrupt", "KeyboardInterrupt"),
    "GeneratorExit": ("raise GeneratorExit('early')", 1, "GeneratorExit", "GeneratorExit: early"),
    "an exception that is no Exception": (LEAF + "raise Leaf('x')", 1, "Leaf", "Leaf: x"),
    "an exception that cannot be shown": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
        1,
        "Mute",
        "Mute",
    ),
    "an exception with itself as cause": (
        "try:\n    raise ValueError('loop')\nexcept ValueError as e:\n    e.__cause__ = e\n    raise",
        1,
        "ValueError",
        "ValueError: loop",
    ),
    "exit code 256": ("import sys; sys.exit(256)", 0, "", ""),
    "exit code -1": ("import sys; sys.exit(-1)", 255, "", ""),
    "a huge exit code": ("import sys; sys.exit(2**70 + 5)", 255, "", ""),
    "an exit code in a tuple": ("import sys; sys.exit((1, 'two'))", 1, "", "(1, 'two')"),
    "an exit code that is an exception": ("import sys; sys.exit(ValueError('sorry'))", 1, "", "sorry"),
    "an exit code without a text": (NO_TEXT + "import sys; sys.exit(Mute())", 1, "", ""),
    "an exit code and no stderr": ("import sys; sys.stderr = None; sys.exit('sorry')", 1, "", ""),
    "SystemExit by hand": ("raise SystemExit", 0, "", ""),
    "an exit handler that exits": ("import atexit, os; atexit.register(os._exit, 9)", 9, "", ""),
    "an exit handler that raises": (
        "import atexit\natexit.register(lambda: 1 / 0)\nprint('end')",
        0,
        "",
        "ZeroDivisionError",
    ),
    "an exit handler that raises SystemExit": ("import atexit, sys\natexit.register(sys.exit, 5)", 0, "", ""),
    "an exit handler that prints": ("import atexit\natexit.register(print, 'handled')", 0, "", "handled"),
    "a finaliser that raises": (
        "class D:\n    def __del__(self): raise ValueError('in del')\nd = D()\ndel d\nprint('on')",
        0,
        "",
        "ValueError: in del",
    ),
    "a hook that prints": (
        "import sys\nsys.excepthook = lambda kind, error, trace: print('HOOK', error)\nraise ValueError('x')",
        1,
        "ValueError",
        "HOOK x",
    ),
    "a hook that raises": (
        "import sys\ndef hook(*_): raise KeyError('hook')\nsys.excepthook = hook\nraise ValueError('x')",
        1,
        "ValueError",
        "ValueError: x",
    ),
    "a hook that exits": (
        "import sys\nsys.excepthook = lambda *_: sys.exit(4)\nraise ValueError('x')",
        4,
        "ValueError",
        "",
    ),
    "a hook that is nothing": ("import sys\nsys.excepthook = None\nraise ValueError('x')", 1, "ValueError", "Error: x"),
    "a hook that is deleted": ("import sys\ndel sys.excepthook\nraise ValueError('x')", 1, "ValueError", "Error: x"),
    "children's ends ignored": (
        "import signal, os\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif not os.fork(): os._exit(3)\nprint('on')",
        0,
        "",
        "on",
    ),
    "another process of the same code ends first": (
        "import os, sys\nif not os.fork(): sys.exit(5)\nos.wait(); sys.exit(6)",
        6,
        "",
        "",
    ),
    "a thread that raises": (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()\nprint('on')",
        0,
        "",
        "ZeroDivisionError",
    ),
    "a thread of the background that never ends": (
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(999), daemon=True).start()\nprint('on')",
        0,
        "",
        "on",
    ),
    "its own process group killed": (
        "import os, signal\nprint('said')\nos.killpg(0, signal.SIGKILL)",
        KILL,
        "",
        "said",
    ),
    "everything it may signal, politely": (
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.killpg(0, signal.SIGTERM)\nprint('on')",
        0,
        "",
        "on",
    ),
    "all descriptors closed": ("import os\nprint('said')\nos.closerange(0, 4096)", 0, "", "said"),
    "its folder deleted": (
        "import os, shutil\nhere = os.getcwd()\nshutil.rmtree(here)\nprint(os.path.exists(here))",
        0,
        "",
        "False",
    ),
    "another folder, which is deleted": (
        "import os, tempfile\nt = tempfile.mkdtemp(); os.chdir(t); os.rmdir(t); print('on')",
        0,
        "",
        "on",
    ),
    "modules destroyed": ("import sys, os\nprint('said')\nsys.modules.clear()", 0, "", "said"),
    "builtins destroyed": ("import builtins\nprint('said')\nbuiltins.print = builtins.open = None", 0, "", "said"),
    "a profile that raises": (
        "import sys\nprint('said')\ndef trace(*_): raise KeyError('traced')\nsys.settrace(trace)\ndef f(): pass\nf()",
        1,
        "KeyError",
        "said",
    ),
    "a timer that rings later": ("import signal\nsignal.alarm(999)\nprint('on')", 0, "", "on"),
}


def test_however_code_ends_its_record_is_true_and_the_next_job_runs(agent: Agent) -> None:
    for how, (source, end, kind, said) in ENDS.items():
        record = agent.run(source)
        by_signal = isinstance(end, signal.Signals)
        found = (record["cause"], record["exit_code"], record["signal"])
        assert found == (("signal", None, end) if by_signal else ("exit", end, None)), (how, record)
        assert (record["exception"] or {"type": ""})["type"] == kind, (how, record["exception"])
        assert said in record["text"], how
        agent.serves(how)


# Faults before the code can start: further fields of the request beside the source, and the class of the error.
NEVER: dict[str, tuple[str, Callable[[Path], dict[str, Any]], str]] = {
    "half a character": ("print('\ud800')", lambda _folder: {}, "UnicodeEncodeError"),
    "variables whose module leaves": ("pass", lambda folder: {"send": leaving(folder)}, "SystemExit"),
}


class Leaving:
    """A value whose unpickling calls ``sys.exit``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (0,)


def leaving(folder: Path) -> dict[str, Any]:
    with (folder / "payload").open("wb") as file:
        variable_file.write(file, {"x": variable_file.Packed(Leaving(), pickle.dumps)})
    return {"path": str(folder / "payload")}


@pytest.mark.parametrize("what", NEVER)
def test_a_job_that_cannot_be_made_ready_fails_by_its_own_exception_and_not_for_its_hosts_sake(
    agent: Agent, tmp_path: Path, what: str
) -> None:
    source, fields, kind = NEVER[what]
    record = agent.run(source, **fields(tmp_path))
    assert (record["cause"], record["exception"]["type"], record["signal"]) == ("refused", kind, None)
    assert record["failure"].startswith(f"{kind}: "), "what begins with host: is tried again"
    (said,) = record["errors"]
    assert said.startswith(f"job: it could not be made ready ({kind}: ")
    agent.serves()


@pytest.mark.parametrize("started", ["fork", "spawn"])
def test_code_that_kills_its_parent_is_still_judged_by_its_own_end(
    start_agent: Callable[..., Agent], started: str, wait_until: Callable[..., Any]
) -> None:
    agent = start_agent(start_method=started)
    (old,) = agent.zygotes()
    source = """
import os, signal, sys, time
parent = os.getppid()
os.kill(parent, signal.SIGKILL)
while os.getppid() == parent: time.sleep(0.001)
print("on"); sys.exit(3)
"""
    record = agent.run(source)
    assert (record["cause"], record["exit_code"], record["text"]) == ("exit", 3, "on\n"), record
    wait_until(lambda: agent.zygotes() not in ([], [old]), "another zygote serves")
    agent.serves()


@pytest.mark.parametrize("ends", ["sys.exit(3)", "os._exit(3)"])
def test_code_that_freezes_its_parent_is_still_judged_by_its_own_end(agent: Agent, ends: str) -> None:
    # A frozen parent cannot report how its child ended; without a report of the child either, the agent finds it out.
    source = f"import os, signal, sys\nos.kill(os.getppid(), signal.SIGSTOP)\nprint('on', flush=True)\n{ends}"
    record = agent.run(source)
    assert (record["cause"], record["exit_code"], record["text"]) == ("exit", 3, "on\n"), record
    agent.serves()


def test_a_parent_that_was_frozen_while_it_was_idle_is_woken_for_the_next_job(agent: Agent) -> None:
    agent.run("pass")
    (zygote,) = agent.zygotes()
    os.kill(zygote, signal.SIGSTOP)
    for _ in range(3):  # the parked child first, then those that only the zygote can make
        agent.serves()


def test_a_stop_while_threads_are_joined_leaves_the_exit_code_as_it_is(agent: Agent) -> None:
    source = """
import signal, sys, threading
signal.signal(signal.SIGTERM, lambda *_: sys.exit(6))
threading.Thread(target=threading.Event().wait).start()
threading.Thread(target=lambda: (threading.main_thread().join(0.01), print("joining", flush=True))).start()
"""
    job, lease = agent.start(source)
    agent.wait_for_log(job, "joining")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("stopped", 0), record
    agent.serves()


HANGS = {
    "a thread that never ends": "import threading, time\nthreading.Thread(target=time.sleep, args=(999,)).start()\n",
    "an exit handler that hangs": "import atexit, time\natexit.register(time.sleep, 999)\n",
    "a pool whose work never ends": (
        "import time, concurrent.futures as f\nf.ThreadPoolExecutor(1).submit(time.sleep, 999)\n"
    ),
    "a finaliser that hangs": "import time\nclass D:\n    def __del__(self): time.sleep(999)\nd = D()\ndel d\n",
    "a signal that is ignored": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()\n"
    ),
    "all signals blocked": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "signal.sigwait([signal.SIGUSR2])\n"
    ),
    "a stopped process": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
}


def test_code_that_never_ends_by_itself_ends_when_its_time_is_over(agent: Agent) -> None:
    for how, source in HANGS.items():
        record = agent.run("print('on', flush=True)\n" + source, max_run=0.5, grace=0.2)
        assert record["cause"] == "max_runtime", (how, record)
        assert record["text"].startswith("on"), how
        agent.serves(how)


def test_a_bomb_of_processes_goes_off_on_its_host_only(agent: Agent, wait_until: Callable[..., Any]) -> None:
    source = """
import os, time
for _ in range(8):
    os.fork()                # 256 processes; each but the first leads a session of its own from here
if os.getpgrp() != os.getpid():
    os.setsid()
time.sleep(999)
"""
    job, lease = agent.start(source)
    wait_until(lambda: len(agent.processes()) >= 256, "the bomb went off", within=PATIENCE)
    agent.stop(job, lease, grace=0.1)
    record = agent.end_of(job)
    assert record["cause"] == "stopped"
    wait_until(lambda: len(agent.processes()) < 6, "no splinter is left", within=PATIENCE)
    agent.serves()


def test_a_bomb_that_reaches_its_limit_is_an_error_of_the_code(
    start_agent: Callable[..., Agent], wait_until: Callable[..., Any]
) -> None:
    agent = start_agent()
    source = """
import os, resource, time
if os.getuid() == 0:
    os.setuid(64999)      # root has no such limit
resource.setrlimit(resource.RLIMIT_NPROC, (50, 50))
while True:
    if not os.fork():
        time.sleep(999)
"""
    record = agent.run(source)
    assert (record["cause"], record["exit_code"]) == ("exit", 1)
    # A process that gave up root's rights can write no file, and its report needs none.
    assert record["exception"]["type"] == "BlockingIOError"
    assert sum("was still running and was killed" in text for text in record["left_behind"]) > 0
    wait_until(lambda: len(agent.processes()) < 6, "no splinter is left", within=PATIENCE)
    agent.serves()


REPORTS = {
    "of other types": '{"exception": 7, "errors": 3, "received": [], "imported": 5}',
    "nested without an end": "[" * 200_000,
    "no JSON": "\\xff{",
}


def test_a_report_takes_no_file_on_the_disk(agent: Agent) -> None:
    job, _lease = agent.start("1 / 0")
    assert agent.end_of(job)["exception"]["type"] == "ZeroDivisionError"
    assert not (agent.folder / "spool" / job / "report.json").exists()


SOCKET_LOSSES = {
    "closed": "import os\nos.closerange(3, 4096)\n",
    "replaced by one of the job's": (
        "import os, socket\nos.closerange(3, 4096)\nkept = [socket.socketpair() for _ in range(9)]\n"
    ),
    "blocked by a tool for tests": (
        "import socket\ndef block(*_): raise RuntimeError('blocked')\nsocket.socket.sendall = block\n"
    ),
}


@pytest.mark.parametrize("loss", SOCKET_LOSSES)
def test_a_job_without_its_socket_reports_in_a_file(agent: Agent, loss: str) -> None:
    record = agent.run(f"{SOCKET_LOSSES[loss]}x = 1", receive=["x"])
    assert (record["exit_code"], list(record["received"]), record["errors"]) == (0, ["x"], [])


def test_a_report_in_a_file_replaces_the_one_that_the_process_sent_before(agent: Agent) -> None:
    record = agent.run("import atexit, os, msgspec\nx = 1\natexit.register(os.closerange, 3, 4096)", receive=["x"])
    assert (record["exit_code"], list(record["received"]), record["errors"]) == (0, ["x"], [])
    assert "msgspec" in record["modules"], "only the report at the very end has the imports"


@pytest.mark.parametrize("kind", REPORTS)
def test_code_that_writes_its_own_report_cannot_keep_its_job_from_ending(own_agent: Agent, kind: str) -> None:
    source = f"""
import os
folder = os.path.dirname(os.readlink("/proc/self/fd/1"))
open(folder + "/report.json", "w").write({REPORTS[kind]!r})
os._exit(0)
"""
    job, _lease = own_agent.start(source)
    record = own_agent.end_of(job)
    assert (record["job"], record["at"]["ended"] is not None) == (job, True)
    if record["cause"] == "exit":
        own_agent.serves()
    else:
        assert record["failure"].startswith("host: this job could not be finished (")
        assert own_agent.wait() == 4, "a host in an unknown state ends"
