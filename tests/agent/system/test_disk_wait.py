"""How long the end of a job waits for a disk, by a clock of the test."""

from __future__ import annotations

import errno
import os

import pytest

from jupyter_smx.agent.system.resources.disk_wait import DiskWait, write_patiently


class Disk:
    """A disk that fails until a moment, and a clock that only pauses move on."""

    def __init__(self, fails_until: float, number: int = errno.ENOSPC) -> None:
        self.fails_until = fails_until
        self.number = number
        self.now = 0.0
        self.tries: list[float] = []
        self.said: list[int] = []

    def write(self) -> None:
        self.tries.append(self.now)
        if self.now < self.fails_until:
            raise OSError(self.number, os.strerror(self.number))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, limit: float) -> None:
        write_patiently(self.write, DiskWait(limit, lambda: self.now), self.said.append, self.sleep)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_disk_that_fails_for_seconds_is_waited_for(number: int) -> None:
    disk = Disk(6.0, number)
    disk.run(300.0)
    assert disk.said == [number, 0]
    assert 6.0 <= disk.now <= 16.0


def test_patience_ends_with_a_last_try_at_its_limit() -> None:
    disk = Disk(1000.0)
    with pytest.raises(OSError, match="No space left"):
        disk.run(300.0)
    assert disk.tries[-1] == 300.0
    assert len(disk.tries) < 50
    assert disk.said == [errno.ENOSPC, 0]


@pytest.mark.parametrize(("fails_until", "number", "limit"), [(1.0, errno.EACCES, 300.0), (1.0, errno.ENOSPC, 0.0)])
def test_other_errors_and_no_patience_are_no_wait(fails_until: float, number: int, limit: float) -> None:
    disk = Disk(fails_until, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        disk.run(limit)
    assert (disk.tries, disk.said) == ([0.0], [])


def test_what_can_be_written_at_once_is_not_announced() -> None:
    disk = Disk(0.0)
    disk.run(300.0)
    assert (disk.tries, disk.said) == ([0.0], [])


def test_the_patience_counts_from_the_first_failure_on_over_all_writes() -> None:
    now = 100.0
    wait = DiskWait(1.0, lambda: now)
    assert wait.next_pause() == 0.25
    now = 100.9
    assert wait.next_pause() == pytest.approx(0.1)
    now = 101.0
    assert wait.next_pause() is None
