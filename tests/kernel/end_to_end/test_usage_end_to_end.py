"""What a job uses, from its host's /proc to the notebook, the lists and the records, and over a killed controller."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.handles.usage import Usage
from jupyter_smx.model.results.usage import GpuUsage, HostUsage, JobUsage

if TYPE_CHECKING:
    from pathlib import Path

BURN = """
import os, time
held = bytearray(os.urandom(1 << 20) * 48)
while not os.path.exists(os.path.join(folder, "enough")):
    until = time.process_time() + 0.01
    while time.process_time() < until: pass
"""

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a /proc on Linux only")


@on_linux
def test_what_a_job_uses_is_seen_while_it_runs_and_survives_the_controller(
    real: Path, eventually_blocking: Any
) -> None:
    job = smx.train(BURN, send={"folder": str(real)}, instance_type="local")
    client = session.current_session().client

    def row() -> Any:
        (newest,) = client.jobs(1)
        return newest.usage

    seen = eventually_blocking(row, "what it uses in the list", within=60.0)
    assert seen.cpu_percent > 0
    assert 48 << 20 < seen.memory_bytes < 1 << 30
    assert (seen.gpu_percent, seen.gpu_memory_bytes) == (None, None)
    first = eventually_blocking(lambda: len(job.usage.history()) > 2 and job.usage.history(), "samples", within=60.0)

    eventually_blocking(lambda: len(job.usage.history()) > len(first), "the next sample at once", within=10.0)

    os.kill(client.controller_info().pid, signal.SIGKILL)
    later = eventually_blocking(lambda: _more_than(job, len(first)), "samples of another controller", within=60.0)
    assert later[: len(first)] == first, "read on from the same byte"
    moments = [sample.at for sample in later]
    assert moments == sorted(set(moments)), "nothing is there twice"

    (real / "enough").touch()
    job.wait(60)
    peak = job.record.peak
    assert peak is not None
    assert peak.cpu_percent > 0
    assert peak.memory_bytes > 48 << 20
    assert peak.cpu_seconds > 0
    (row_at_the_end,) = client.jobs(1)
    assert (row_at_the_end.usage, row_at_the_end.peak) == (None, peak)
    assert job.usage.peak == peak
    assert job.usage.history()[: len(later)] == later
    only = client.usage(job.id, host="algo-1", since=moments[-1])
    assert only.hosts[0].at, "a job that ends has a last sample"
    newer = [sample.at for sample in job.usage.history() if sample.at > moments[-1]]
    assert [list(host.at) for host in only.hosts] == [newer]
    with pytest.raises(Exception, match="algo-9"):
        client.usage(job.id, host="algo-9")
    assert "CPU" in repr(job.usage)
    assert json.loads(json.dumps(job.usage.history()[0]))


@on_linux
@pytest.mark.usefixtures("real")
def test_a_job_that_nobody_looked_at_has_its_samples_at_the_end() -> None:
    job = smx.train("import time; time.sleep(0.5)", instance_type="local").wait(60)
    found = job.usage.history()
    assert found
    assert found[0].memory_bytes is not None
    assert job.latest_record.peak is not None
    assert job.latest_record.peak.memory_bytes == max(sample.memory_bytes or 0 for sample in found)


def _more_than(job: Any, count: int) -> Any:
    with contextlib.suppress(Exception):
        found = job.usage.history()
        return found if len(found) > count else None
    return None


def test_what_nobody_measured_is_said_to_be_unknown() -> None:
    usage = Usage(JobUsage(job="digits-1"))
    assert (usage.cpu_percent, usage.memory_bytes, usage.gpu_percent, usage.gpu_memory_bytes) == (None,) * 4
    assert (usage.history(), usage.hosts, usage.peak) == ([], (), None)
    assert repr(usage) == "<Usage of digits-1: no measurements>"
    with pytest.raises(KeyError, match=r"no samples of host 'algo-2'\. Hosts with samples: none"):
        usage.history("algo-2")


def test_hosts_and_gpus_are_added_up() -> None:
    def host(name: str, percent: float, memory: int | None) -> HostUsage:
        none = (None,)
        gpu = GpuUsage(id="GPU-a", name="H100", percent=(percent,), memory_bytes=(memory,))
        return HostUsage(
            host=name,
            at=(1.0,),
            cpu_percent=(150.0,),
            memory_bytes=(2_000_000,),
            read_rate=none,
            write_rate=none,
            receive_rate=none,
            send_rate=none,
            disk_bytes=none,
            gpus=(gpu, gpu),
            notes=("Of the whole host.",),
        )

    usage = Usage(JobUsage(job="digits-1", hosts=(host("algo-1", 40.0, 1_000), host("algo-2", 10.0, None))))
    assert (usage.cpu_percent, usage.memory_bytes, usage.gpu_percent, usage.gpu_memory_bytes) == (
        300.0,
        4_000_000,
        100.0,
        2_000,
    )
    assert usage.history("algo-2")[0].gpu_memory_bytes is None
    assert usage.history()[0].gpu_percent == 80.0
    assert usage.notes == ("Of the whole host.",)
    assert repr(usage) == "<Usage of digits-1: CPU 300 %, memory 3.8 MiB, GPU 100 %, GPU memory 2.0 KiB>"
