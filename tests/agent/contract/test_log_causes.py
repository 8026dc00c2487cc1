"""Why code failed, as the end of its log says it: exceptions of ranks, sentences of parsers, last lines of stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract.log_causes import causes
from jupyter_smx.agent.contract.log_causes.causes import Cause, LogTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


SCRIPT = "/opt/ml/code/t.py"
TRACE = f'Traceback (most recent call last):\n  File "{SCRIPT}", line 3, in <module>\n    f()\n'
LIBRARY = '  File "/usr/lib/python3/x.py", line 90, in f\n    raise\n'
RULE = "-" * 74
PRIMARY = f"{RULE}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code.\n{RULE}\n"
NOTICED = "mpirun noticed that process rank 1 with PID 0 on node algo-1 exited on signal 9 (Killed).\n"
REPORT = f"{'=' * 60}\nt.py FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'=' * 60}\n"
CHILD_FAILED = f'Traceback (most recent call last):\n  File "/bin/torchrun", line 8, in <module>\n{LIBRARY}'
IGNORED = f"Exception ignored in: <function A.__del__>\n{TRACE}TypeError: late\n"

GROUP = (
    "  + Exception Group Traceback (most recent call last):\n"
    f'  |   File "{SCRIPT}", line 3, in <module>\n  |     raise many\n'
    "  | ExceptionGroup: many (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
    f'    | Traceback (most recent call last):\n    |   File "{SCRIPT}", line 9, in f\n    | ValueError: first\n'
    "    +---------------- 2 ----------------\n    | TypeError: second\n    +------------------------------------\n"
)


def tagged(rank: int, text: str, stream: str = "stderr") -> str:
    return "".join(f"[1,mpirank:{rank},algo-1]<{stream}>:{line}\n" for line in text.splitlines())


def found(log: str, **ends: int) -> Cause:
    return causes.find_cause(LogTail(log.encode(), **ends), SCRIPT)


def all_stderr(log: str) -> Cause:
    return found(log, stderr_end=len(log.encode()))


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"{TRACE}{LIBRARY}ValueError: my own words\n", ("ValueError", "my own words", 3)),
        (f"{TRACE}torch.cuda.OutOfMemoryError: CUDA out of memory.\n", ("OutOfMemoryError", "CUDA out of memory.", 3)),
        (TRACE.replace(SCRIPT, "t.py") + "OSError: no\n", ("OSError", "no", 3)),
        (TRACE.replace(SCRIPT, "/x/t.py") + "OSError: no\n", ("OSError", "no", None)),
        (f"{TRACE}AssertionError\n", ("AssertionError", "", 3)),
        (f"{TRACE}KeyError: 'a'\n\nDuring handling:\n\n{TRACE}OSError: no\n", ("OSError", "no", 3)),
        (f"{TRACE}OSError: no\n{IGNORED}", ("OSError", "no", 3)),
        ("\x1b[31m" + TRACE + "OSError: no\x1b[0m\n", ("OSError", "no", 3)),
        (tagged(0, f"{TRACE}ValueError: mine") + PRIMARY, ("ValueError", "mine", 3)),
        (
            tagged(1, TRACE) + tagged(0, TRACE) + tagged(0, "OSError: first") + tagged(1, "OSError: second"),
            ("OSError", "first", 3),
        ),
        (
            (
                f"[rank1]: {TRACE.replace(chr(10), chr(10) + '[rank1]: ')}ValueError: mine\n{CHILD_FAILED}"
                f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{REPORT}"
            ),
            ("ValueError", "mine", 3),
        ),
        (
            f"{TRACE}ValueError: mine\n{CHILD_FAILED}subprocess.CalledProcessError: Command 'x' returned 1.\n",
            ("ValueError", "mine", 3),
        ),
        (f"{TRACE}RuntimeError: Error: data missing\n", ("RuntimeError", "Error: data missing", 3)),
        (f"{TRACE}ValueError: mine\nERROR: Job failed with exit 1\n", ("ValueError", "mine", 3)),
        (f"{TRACE}ValueError: mine\nmake: *** [train] Error 1\n", ("ValueError", "mine", 3)),
        (f"{TRACE}ValueError: first\nsecond\n\n  third\n", ("ValueError", "first\nsecond\n\n  third", 3)),
        (f"{TRACE}ValueError: first\nsecond\nINFO:root:closed\n", ("ValueError", "first\nsecond", 3)),
        (GROUP, ("ExceptionGroup", "many (2 sub-exceptions)", 3)),
        (f"{CHILD_FAILED}subprocess.CalledProcessError: Command 'x'\n", ("CalledProcessError", "Command 'x'", None)),
    ],
)
def test_the_exception_that_ended_the_code(log: str, expected: tuple[str, str, int | None]) -> None:
    exception: dict[str, Any] = found(log).exception or {}
    assert (exception["type"], exception["message"], exception["line"]) == expected
    assert exception["traceback"].partition("\n")[0].endswith("Traceback (most recent call last):")
    assert "]<stderr>" not in exception["traceback"]


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ("", ""),
        ("bad config: lr\n", "bad config: lr"),
        ("usage: t.py [-h] --lr LR\nt.py: error: lr is required\n", "t.py: error: lr is required"),
        (
            "Usage: t.py [OPTIONS]\nTry 't.py --help'.\n\nError: Missing option '--lr'.\n",
            "Error: Missing option '--lr'.",
        ),
        ("+ make data\nmake: *** [data] Error 1\n", "make: *** [data] Error 1"),
        ("10%|#  | 1/9\r20%|## | 2/9\nINFO:root:fitting\nno data\n", "no data"),
        ("t.py:3: UserWarning: old\n  warnings.warn('old')\n", ""),
        ("1\n2\n3\n4\n", "2\n3\n4"),
        (
            "Loading\nError in f() : object 'x' not found\nExecution halted\n",
            "Error in f() : object 'x' not found\nExecution halted",
        ),
        (
            'Exception in thread "main" java.lang.Error: no\n\tat A.main(A.java:3)\n',
            'Exception in thread "main" java.lang.Error: no',
        ),
        (
            "pyenv: python3.9: command not found\n\nIt exists in:\n  3.9.1\n",
            "pyenv: python3.9: command not found\nIt exists in:\n3.9.1",
        ),
        ("exec: ./train.sh: Permission denied\n", "exec: ./train.sh: Permission denied"),
        ("one\nfatal: no such file\nhint: look\n", "fatal: no such file\nhint: look"),
        (f"{TRACE}OSError: tried again\n" + "step\n" * 30 + "gave up\n", "step\nstep\ngave up"),
        (f"{TRACE}OSError: tried again\nusage: t.py [-h]\nt.py: error: no\n", "t.py: error: no"),
        (
            f"{TRACE}TimeoutError: late\n" + "epoch done\n" * 15 + "validation below threshold\n",
            "epoch done\nepoch done\nvalidation below threshold",
        ),
        (tagged(0, "quiet", "stdout") + tagged(1, "no data") + PRIMARY, "no data"),
        (f"{RULE}\n{NOTICED}{RULE}\n", "Rank 1 was ended by signal 9 (SIGKILL)."),
    ],
)
def test_the_sentence_with_which_the_code_left(log: str, text: str) -> None:
    assert all_stderr(log)._replace(killed_by=0) == Cause(text=text)


def test_a_killed_rank_is_known_as_killed() -> None:
    assert found(NOTICED).killed_by == 9


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ({}, ""),
        ({"stdout_end": 8}, ""),
        ({"stdout_end": 8, "stderr_end": 16}, "no data"),
        ({"stdout_end": 16, "stderr_end": 8}, "epoch 1"),
        ({"stderr_end": 16}, "epoch 1\nno data"),
        ({"start": 100, "stdout_end": 50, "stderr_end": 116}, "epoch 1\nno data"),
        ({"start": 100, "stdout_end": 116, "stderr_end": 50}, ""),
    ],
)
def test_only_what_came_from_stderr_explains_an_end(ends: dict[str, int], text: str) -> None:
    assert found("epoch 1\nno data\n", **ends) == Cause(text=text)


def test_a_metric_on_stdout_is_no_sentence_of_a_parser() -> None:
    log = "fatal: cannot open db\nEpoch 3: error: 0.12\n"
    assert found(log, stderr_end=22, stdout_end=len(log)) == Cause(text="fatal: cannot open db")


@pytest.mark.parametrize(("exit_code", "lines", "kind"), [(1, 15, "OSError"), (2, 15, None), (1, 50, None)])
def test_the_buffer_of_stdout_may_follow_a_traceback(exit_code: int, lines: int, kind: str | None) -> None:
    errors = f"{TRACE}OSError: no\n"
    log = (errors + "epoch done\n" * lines).encode()
    cause = causes.find_cause(LogTail(log, 0, len(log), len(errors)), SCRIPT, exit_code)
    assert (cause.exception or {}).get("type") == kind
    assert (cause.exception or {}).get("message", "no") == "no"


def test_a_line_of_stderr_after_output_shows_that_the_program_went_on() -> None:
    start = f"{TRACE}OSError: no\nepoch done\n"
    log = f"{start}too low\n"
    assert found(log, stdout_end=len(start), stderr_end=len(log)) == Cause(text="too low")


SIZE = causes.TAIL


@pytest.mark.parametrize(
    "log",
    [
        "x" * SIZE,
        "process rank 1 " * (SIZE // 15),
        "process rank 1 exited on signal " + "1" * SIZE,
        "".join(f"[rank{rank}]: x\n" for rank in range(SIZE // 14)),
        f'{TRACE}  File "t.py", line {"9" * 5000}\nOSError: no\n',
    ],
    ids=["a word", "ranks of mpirun", "a signal", "ranks of PyTorch", "a line"],
)
def test_no_log_takes_long(log: str) -> None:
    begin = time.process_time()
    all_stderr(log)
    assert time.process_time() - begin < 1


def test_a_long_message_stays_whole() -> None:
    assert (found(f"{TRACE}ValueError: {'x' * 5000}\n").exception or {})["message"] == "x" * 5000


RUNS: dict[str, tuple[str, str, str]] = {
    "sys.exit with a text": ("import sys\nprint('out')\nsys.exit('bad config: lr')", "", "bad config: lr"),
    "argparse": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args([])",
        "",
        "Exit Code: 2. train.py: error: the following arguments are required: --lr",
    ),
    "a code alone": ("print('epoch 1')\nraise SystemExit(3)", "", ""),
    "a child of Python": (
        "import subprocess, sys\nsys.exit(subprocess.call(['sh', '-c', 'echo no data >&2; exit 4']))",
        "",
        "Exit Code: 4. no data",
    ),
    "a shell script": ("echo fitting; echo no data >&2; exit 5", "train.sh", "Exit Code: 5. no data"),
    "stdout of a shell script": ("echo fitting; exit 5", "train.sh", ""),
    "Python of a shell script": (
        "python3 -c 'raise ValueError(\"mine\")' 2>&1 | cat; exit 6",
        "train.sh",
        "ValueError: mine",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_job_says_why_it_left(agent: Agent, name: str) -> None:
    source, entry_point, failure = RUNS[name]
    record = agent.run(source, entry_point=entry_point)
    assert record["failure"] == failure, record["text"]
    message = failure.partition(". ")[2] if failure.startswith("Exit Code") else failure
    assert f'ErrorMessage "{message}"' in record["reason"]
    assert (record["exception"] or {}).get("type") == ("ValueError" if "ValueError" in failure else None)


def test_a_spawned_job_says_it_too(start_agent: Callable[..., Agent]) -> None:
    agent = start_agent(start_method="spawn")
    assert agent.run("import sys\nsys.stderr.write('no data\\n')\nsys.exit(3)")["failure"] == "Exit Code: 3. no data"


def test_a_stopped_job_is_not_explained_by_its_log(agent: Agent) -> None:
    job, lease = agent.start(
        "trap 'echo no data >&2; exit 5' TERM\n(echo on; exec sleep 60) & wait", entry_point="a.sh"
    )
    agent.wait_for_log(job, "on\n")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["failure"], record["exception"]) == ("stopped", "", None)
