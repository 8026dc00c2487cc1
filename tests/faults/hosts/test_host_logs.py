"""Unusual logs, from the job to the notebook: complete on disk, small in memory, readable on the card."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from world import PATIENCE

from jupyter_smx.agent.system.resources.log_limit import BLOCK
from jupyter_smx.kernel.display.card import card_of
from jupyter_smx.kernel.logs import reader
from jupyter_smx.kernel.subcommands import log_subcommands as logs
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from world import Ran, World

MEBI = 1 << 20
HUGE = 100 * MEBI
GROWTH = 24 * MEBI
"""Bytes that a controller may grow by while it collects a log of any length."""
LINES = 8
CONTROL = {chr(code) for code in range(32)} - {"\t", "\n"}


def highest(pid: int) -> int:
    """Return the maximum of a process's resident memory, in bytes."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(rows["VmHWM"].split()[0]) * 1024


def home(job: Ran) -> Path:
    """Return the collected log of a job."""
    return job.world.data / "jobs" / job.id / "logs" / "algo-1.log"


def test_a_hundred_megabytes_in_one_line_come_home_whole_through_a_small_controller(world: World) -> None:
    world.warm()
    before = highest(world.controller())
    job = world.submit(
        "import hashlib\n"
        f"piece, digest, left = b'0123456789abcdef' * 65536, hashlib.sha256(b'begun\\n'), {HUGE}\n"
        "while left:\n    n = os.write(1, piece[:left]); digest.update(piece[:n]); left -= n\n"
        "digest.update(b'\\ndone\\n')\n"
        "open(os.environ['SM_MODEL_DIR'] + '/digest', 'w').write(digest.hexdigest())\n"
        "print()\nvalue = digest.hexdigest()\n",
        receive=("value",),
    )
    assert job.wait().state is SecondaryStatus.COMPLETED
    assert home(job).stat().st_size == HUGE + len("begun\n\ndone\n")
    digest = hashlib.sha256()
    with home(job).open("rb") as file:
        while piece := file.read(MEBI):
            digest.update(piece)
    assert digest.hexdigest().encode() in (home(job).parents[1] / "result.pkl").read_bytes()
    assert highest(world.controller()) - before < GROWTH
    began = time.monotonic()
    lines = reader.last_lines(world.client, job.job(), LINES)
    assert lines[-1] == "done"
    assert sum(map(len, lines)) <= 200 * LINES, "a card is no place for a line of a hundred megabytes"
    assert time.monotonic() - began < 5, "seconds for the end of a log, which is read from its end"
    # A follower gets the log in pieces, in time that is linear in its length.
    length = sum(
        len(text)
        for _, text in reader.follow_chunks(world.client, job.job(), [reader.LogCursor(world.client, job.id, "algo-1")])
    )
    assert length == HUGE + len("begun\n\ndone\n")
    assert highest(world.controller()) - before < GROWTH


@pytest.mark.usefixtures("punches")
def test_a_log_over_its_limit_keeps_both_ends_through_a_kill_and_lies_on_the_disk_once(
    world: World, configure: Callable[[str], None]
) -> None:
    limit = MEBI // 8
    configure(f"c.ControllerApp.log_limit_mib = {limit / MEBI}")
    gate = world.gate()
    write = "for number in range({}, {}): print('line %09d' % number)\nsys.stdout.flush()\n"
    wait = f"import time\nwhile not os.path.exists({os.fspath(gate)!r}): time.sleep(0.002)\n"
    source = f"import sys\n{write.format(0, 40_000)}print('half', flush=True)\n{wait}{write.format(40_000, 80_000)}"
    job = world.submit(source, keep_alive=0)
    size = len("begun\nhalf\n") + 15 * 80_000 + len("done\n")
    spool = next_file(world, f"clusters/*/algo-1/spool/{job.id}/log")
    eventually_blocking(
        lambda: home(job).exists() and b"half" in home(job).read_bytes(), "the first half is here", within=PATIENCE
    )
    os.kill(world.controller(), signal.SIGKILL)
    gate.touch()
    assert job.wait().state is SecondaryStatus.COMPLETED
    assert home(job).stat().st_size == size
    assert home(job).stat().st_blocks * 512 <= limit + BLOCK
    assert spool.stat().st_blocks == 0
    lines = "".join(reader.read_all(world.client, job.job())).splitlines()
    assert (lines[:2], lines[-2:]) == (["begun", "line 000000000"], ["line 000079999", "done"])
    assert sum("of this log were left out here: a job's log may take 128.0 KiB" in line for line in lines) == 1
    assert list(reader.read_all(world.client, job.job(), last=1)) == ["done\n"]


def next_file(world: World, pattern: str) -> Path:
    """Wait until there is a file of that pattern in the data folder."""
    eventually_blocking(lambda: any(world.data.glob(pattern)), f"there is a file {pattern}", within=PATIENCE)
    return next(world.data.glob(pattern))


def test_a_line_without_an_end_is_followed_in_time_that_grows_with_its_length() -> None:
    shown: list[object] = []

    class Lines:
        write_row = staticmethod(shown.append)

    piece = "x" * (MEBI // 4)
    began = time.monotonic()
    logs._write_lines(
        [("algo-1", "a\nb"), *[("algo-1", piece)] * 400, ("algo-2", "c\n"), ("algo-1", "\nlast")], Lines()
    )  # type: ignore[arg-type]
    assert time.monotonic() - began < 10, "seconds; looking at the whole line again for each piece takes a hundred"
    assert shown[0] == {"host": "algo-1", "line": "a"}
    assert shown[1:] == [
        {"host": "algo-2", "line": "c"},
        {"host": "algo-1", "line": "b" + piece * 400},
        {"host": "algo-1", "line": "last"},
    ]


LOGS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "broken UTF-8": (b"ok \xff\xc3( \xe2\x82\nnext\n", ("ok \ufffd\ufffd( \ufffd", "next")),
    "progress drawn over itself": (b"\r 1%\r 50%\r100%\nnext\n", ("100%", "next")),
    "progress that ends with a return": (b"\r 1%\r 50%\r", (" 50%",)),
    "lines as Windows ends them": (b"one\r\ntwo\r\n", ("one", "two")),
    "colours": (b"\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[K\nnext\n", ("red and blue", "next")),
    "a title and a link": (b"\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ("text link",)),
    "a cleared screen": (b"\x1b[2J\x1b[Hclean\n", ("clean",)),
    "zeros and bells": (b"a\0b\x07c\x08\n", ("abc",)),
    "markup": (b"<script>alert(1)</script> &amp;\n", ("<script>alert(1)</script> &amp;",)),
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_has_every_byte_and_the_end_of_it_is_readable(shared: World, kind: str) -> None:
    written, shown = LOGS[kind]
    job = shared.run(f"import sys\nsys.stdout.buffer.write({written!r})\nsys.stdout.flush()\nos._exit(0)")
    assert home(job).read_bytes() == b"begun\n" + written
    lines = reader.last_lines(shared.client, job.job(), LINES)
    assert lines == ("begun", *shown)
    card = replace(card_of(job.job(), time.time()), tail=lines)
    assert CONTROL.isdisjoint(card.html())
    assert "<script>" not in card.html()
    whole = "".join(reader.read_all(shared.client, job.job()))
    assert whole == (b"begun\n" + written).decode(errors="replace"), "whoever asks for the log gets it as it is"


def test_a_flood_of_carriage_returns_has_an_end(shared: World) -> None:
    job = shared.run("import sys\nfor step in range(200_000): sys.stdout.write(f'\\r{step:6d}')\nprint()")
    assert reader.last_lines(shared.client, job.job(), LINES) == ("199999", "done")


@pytest.mark.parametrize(
    "harm",
    ["os.ftruncate(1, 0)", "os.unlink(os.readlink('/proc/self/fd/1'))", "os.close(1); os.close(2); os._exit(0)"],
    ids=["emptied", "deleted", "closed"],
)
def test_a_log_that_its_job_destroyed_holds_nobody_up(shared: World, harm: str) -> None:
    job = shared.submit(f"print('x' * 100_000, flush=True)\n{harm}\nprint('after', flush=True)")
    assert job.wait().state is SecondaryStatus.COMPLETED
    assert job.job().ended_at is not None
    "".join(reader.read_all(shared.client, job.job()))
    assert shared.run().why().startswith("Warm: ")
