"""Logs of every kind: endless lines, bytes that are no text, streams that are closed, logs that are gone."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.resources.log_limit import BLOCK, left_out
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from far_side import Agent


@pytest.fixture
def agent(shared_agent: Agent) -> Agent:
    """Give the agent of the module."""
    return shared_agent


MEBI = 1 << 20
HUGE = 100 * MEBI
GROWTH = 4 * MEBI
"""Bytes that an agent may grow by while it passes a log on."""


def resident(agent: Agent, row: str) -> int:
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(row + ":"))


def test_a_hundred_megabytes_without_a_newline_pass_through_a_small_agent(agent: Agent) -> None:
    agent.run("print('warm')")
    if "_hashlib" not in sys.builtin_module_names:  # else no file shows that it is loaded
        maps = Path(f"/proc/{agent.process.pid}/maps")
        eventually_blocking(lambda: "_hashlib" in maps.read_text(), "hashlib: the last of startup.AFTER_START")
    agent.run("print('all is loaded')")  # the agent also reads the installed packages before that
    before = resident(agent, "VmRSS")
    source = f"""
import hashlib, os
piece, digest = bytes(range(32, 127)) * 11038, hashlib.sha256()
left = {HUGE}
while left:
    written = os.write(1, piece[:left])
    digest.update(piece[:written])
    left -= written
open(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write(digest.hexdigest())
"""
    job, _lease = agent.start(source)
    record = agent.end_of(job)
    assert (record["exit_code"], record["log"]) == (0, HUGE)
    digest, offset = hashlib.sha256(), 0
    while offset < HUGE:
        frame = agent.client.frame("read", job=job, name="log", offset=offset, limit=MEBI // 4)
        assert frame.header["total"] == HUGE
        digest.update(frame.body)
        offset += len(frame.body)
    assert digest.hexdigest() == record["failure"]
    assert resident(agent, "VmHWM") - before < GROWTH
    told = [event for event in agent.client.events if event["event"] == "grew"]
    assert len(told) < 2000, "news of growth are few, whatever the number of writes"


BYTES = {
    "broken UTF-8": b"\xff\xfe\xc3(\xe2\x82 ok \xed\xa0\x80\n",
    "zeros": b"a\0b\0\0\n",
    "a byte order mark": b"\xef\xbb\xbfx\n",
    "carriage returns": b"".join(b"\r%3d%%" % number for number in range(101)) + b"\r\n",
    "colours": b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x1b[H\n",
    "no newline at the end": b"last",
    "every byte": bytes(range(256)),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BYTES)
def test_a_log_has_every_byte_that_was_written(agent: Agent, kind: str) -> None:
    job, _lease = agent.start(f"import sys\nsys.stdout.buffer.write({BYTES[kind]!r})" if BYTES[kind] else "")
    assert agent.end_of(job)["log"] == len(BYTES[kind])
    assert agent.read(job) == BYTES[kind]


def test_text_that_no_encoding_has_is_printed_all_the_same(agent: Agent) -> None:
    record = agent.run("print('a\\ud800b', flush=True)\nimport sys\nprint('\\udcff', file=sys.stderr)\nprint('日本')")
    assert (record["exit_code"], record["text"]) == (0, "a\\ud800b\n\\udcff\n日本\n")


def test_a_flood_of_carriage_returns_arrives_whole(agent: Agent) -> None:
    record = agent.run("import sys\nfor step in range(300000): sys.stdout.write(f'\\r{step}')\nsys.stdout.flush()")
    assert record["text"] == "".join(f"\r{step}" for step in range(300000))


# What is done to the streams: the source, and what the log has when a good end follows.
STREAMS: dict[str, tuple[str, str]] = {
    "descriptor 1 closed": ("import os\nos.close(1)", "before\n"),
    "descriptors 1 and 2 closed": ("import os\nos.close(1); os.close(2)", "before\n"),
    "stdout closed": ("import sys\nsys.stdout.close()", "before\n"),
    "stderr closed": ("import sys\nsys.stderr.close()", "before\n"),
    "stdout is nothing": ("import sys\nsys.stdout = sys.stderr = None", "before\n"),
    "stdout is a text in memory": ("import io, sys\nsys.stdout = io.StringIO()\nprint('inside')", "before\n"),
    "stdout raises": (
        "import sys\nclass Broken:\n    def write(self, text): 1 / 0\n    flush = write\nsys.stdout = Broken()",
        "before\n",
    ),
    "descriptor 1 replaced by a file": (
        "import os\nf = open(os.environ['TMPDIR'] + '/x', 'w')\nos.dup2(f.fileno(), 1)\nprint('inside', flush=True)",
        "before\n",
    ),
    "descriptor 1 replaced by a pipe without a reader": (
        "import os\nr, w = os.pipe()\nos.dup2(w, 1); os.close(r); os.close(w)",
        "before\n",
    ),
    "descriptor 1 taken by the next file": (
        "import os\nos.close(1)\nother = open(os.environ['TMPDIR'] + '/x', 'w')\nprint('into the other')",
        "before\n",
    ),
    "both descriptors exchanged": ("import os\nos.dup2(2, 1)\nprint('after', flush=True)", "before\nafter\n"),
    "the original stream": ("import sys\nsys.stdout = None\nprint('after', file=sys.__stdout__)", "before\nafter\n"),
}


@pytest.mark.parametrize("what", STREAMS)
def test_code_may_do_what_it_likes_with_its_streams(agent: Agent, what: str) -> None:
    source, text = STREAMS[what]
    record = agent.run("print('before', flush=True)\n" + source + "\nresult = 42", receive=["result"])
    assert (record["cause"], record["exit_code"], record["exception"]) == ("exit", 0, None), record
    assert record["text"] == text
    assert list(record["received"]) == ["result"], "what the job made comes home without streams, too"
    assert agent.run("print('next')")["text"] == "next\n"


def test_what_was_only_buffered_is_in_the_log_unless_the_process_dies_at_once(agent: Agent) -> None:
    assert agent.run("import sys\nsys.stdout.write('no end of line')")["text"] == "no end of line"
    assert agent.run("import ctypes\nctypes.CDLL(None).printf(b'from C')")["text"] == "from C"


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        ("os.ftruncate(1, 0)", "after\n"),
        ("os.unlink(os.readlink('/proc/self/fd/1'))", ""),
        ("import shutil; shutil.rmtree(os.path.dirname(os.readlink('/proc/self/fd/1')))", ""),
    ],
    ids=["emptied", "deleted", "deleted with its folder"],
)
def test_code_that_destroys_its_log_harms_only_that(agent: Agent, harm: str, text: str) -> None:
    record = agent.run(f"import os\nprint('before', flush=True)\n{harm}\nprint('after', flush=True)")
    assert (record["cause"], record["exit_code"], record["text"]) == ("exit", 0, text), record
    assert agent.read(record["job"], "end.json"), "the record is there"
    assert agent.run("print('next')")["text"] == "next\n"


@pytest.mark.usefixtures("punches")
def test_a_log_takes_no_more_than_its_limit_on_the_hosts_disk(start_agent: Callable[..., Agent]) -> None:
    limit = 128 * 1024
    agent = start_agent(log_limit=limit)
    source = "import os\nfor number in range(65_536): os.write(1, b'line %09d %s\\n' % (number, b'.' * 17))"
    job, _lease = agent.start(source)
    size = agent.end_of(job)["log"]
    whole = b"".join(b"line %09d %s\n" % (number, b"." * 17) for number in range(65_536))
    begin, end = left_out(len(whole), limit)
    assert (size, agent.read(job)) == (len(whole), whole[:begin] + bytes(end - begin) + whole[end:])
    assert (agent.folder / "spool" / job / "log").stat().st_blocks * 512 <= limit + BLOCK
