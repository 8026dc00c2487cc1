"""Many submissions while the controller is killed again and again, and a soak of jobs whose memory is measured."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from chaos_loop import check

if TYPE_CHECKING:
    from chaos_world import ChaosWorld

WARMED_UP = 500
"""Jobs after which memory is compared: caches have their size then."""
MAX_BYTES = 2048
"""Bytes of memory that the controller may take for each job after those."""
_KEPT = 600


def submit_under_kills(world: ChaosWorld, count: int, kills: int) -> list[str]:
    """Submit ``count`` jobs while the controller is killed ``kills`` times; give what does not hold."""
    done = threading.Event()
    killer = threading.Thread(target=_kill_again_and_again, args=(world, kills, count, done), name="killer")
    killer.start()
    for _ in range(count):
        world.submit("", keep_alive=_KEPT)
    done.set()
    killer.join()
    return check(world)


def _kill_again_and_again(world: ChaosWorld, kills: int, count: int, done: threading.Event) -> None:
    """Kill the controller each time that another share of the submissions was made."""
    journal = world.journal
    for number in range(1, kills + 1):
        while journal.calls["submit"] < number * count // (kills + 1) and not done.is_set():
            time.sleep(0.005)
        for pid in world.controllers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                journal.faults["kill_controller"] += 1


def soak(world: ChaosWorld, count: int) -> list[str]:
    """Run ``count`` jobs one after another in one pool; give what does not hold of memory and descriptors."""
    begin: tuple[int, int] | None = None
    size = (0, 0)
    for number in range(1, count + 1):
        job = world.submit("", keep_alive=_KEPT)
        world.client.wait(job, 60.0)
        if number in (min(WARMED_UP, count // 2), count):
            time.sleep(2.0)  # the write-ahead log is moved, and hosts forget
            size = _size_of(world.controllers()[0])
            begin = begin or size
            sys.stdout.write(f"{number} jobs: {size[0]} bytes, {size[1]} descriptors\n")
    first = begin or size
    per_job = (size[0] - first[0]) / max(1, count - min(WARMED_UP, count // 2))
    found = [f"{per_job:.0f} bytes of memory a job"] if count > 2 * WARMED_UP and per_job > MAX_BYTES else []
    if size[1] > first[1]:
        found.append(f"{size[1] - first[1]} descriptors more than at first")
    return found + check(world)


def _size_of(pid: int) -> tuple[int, int]:
    """Give bytes of memory and the number of descriptors of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len([*Path(f"/proc/{pid}/fd").iterdir()])
