"""Clean up after a test with a real controller: stop jobs, release pools, end the controller."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.errors import SmxError
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import Client

_MAX_JOBS = 1_000


def stop_everything() -> None:
    """End the hosts of the data folder's controller, and then the controller; does nothing if none listens.

    :raises AssertionError: a process did not end.
    """
    session.close_session()
    if not controller_launch.is_listening():
        return
    with contextlib.closing(autostart.client()) as client:
        _end_hosts(client)
        pid = client.controller_info().pid
    os.kill(pid, signal.SIGTERM)
    eventually_blocking(lambda: not controller_launch.is_listening(), "the controller's end")


def stop_hosts() -> None:
    """End the jobs and hosts of the data folder's controller, which goes on for the next test.

    :raises AssertionError: a process did not end.
    """
    session.close_session()
    with contextlib.closing(autostart.client()) as client:
        _end_hosts(client)


def stop_jobs(client: Client) -> None:
    """Stop all jobs that run or wait, and return once they ended.

    :raises AssertionError: a job did not end.
    """
    for array in client.arrays():
        client.stop_array(array.id)
    for job in client.jobs(_MAX_JOBS):
        if not job.ended_at:
            client.stop(job.id)
    eventually_blocking(lambda: all(job.ended_at for job in client.jobs(_MAX_JOBS)), "the jobs' ends")


def _end_hosts(client: Client) -> None:
    stop_jobs(client)
    eventually_blocking(lambda: not _release_pools(client), "the pools' ends")


def _release_pools(client: Client) -> list[str]:
    """Release what can be released, and name what is still there."""
    for pool in client.pools():
        with contextlib.suppress(SmxError):  # it is in use for another moment, or is leaving
            client.release(pool.id)
    return [pool.name for pool in client.pools()]
