"""Many submissions while the controller is killed again and again, and a soak of jobs whose memory is measured."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import signal
import sys
import threading
import time
from collections import Counter
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
    first_memory, first_files = 0, Counter[str]()
    memory, files = 0, Counter[str]()
    for number in range(1, count + 1):
        job = world.submit("", keep_alive=_KEPT)
        world.client.wait(job, 60.0)
        if number in (min(WARMED_UP, count // 2), count):
            files = _open_files(world.controllers()[0])
            memory = _memory(world.controllers()[0])
            first_memory, first_files = first_memory or memory, first_files or files
            sys.stdout.write(f"{number} jobs: {memory} bytes, {files.total()} descriptors\n")
    per_job = (memory - first_memory) / max(1, count - min(WARMED_UP, count // 2))
    faults = [f"{per_job:.0f} bytes of memory a job"] if count > 2 * WARMED_UP and per_job > MAX_BYTES else []
    # SQLite keeps the descriptor of a connection that a thread closed, for the next one: other locks would go with it.
    allowed = first_files | Counter({str(world.data / "smx.sqlite"): 2})
    if files - allowed:
        faults.append(f"more descriptors than at first: {sorted((files - allowed).elements())}")
    return faults + check(world)


def _memory(pid: int) -> int:
    """Give the bytes of memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(pid: int) -> Counter[str]:
    """Give what the descriptors of a process stand for, leaving out what is open only for a part of two seconds.

    Ten looks share what stays: the controller moves its write-ahead log and answers the last client meanwhile.
    """
    looks = []
    for _ in range(10):
        time.sleep(0.2)
        looks.append(Counter(_targets(pid)))
    return Counter(target.split(":[")[0] for target in functools.reduce(operator.and_, looks).elements())


def _targets(pid: int) -> list[str]:
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return targets
