"""What a job uses of GPUs, as a driver would tell it: by process, of parts of GPUs, refused, and lost on the way.

No GPU was measured: :mod:`nvml_driver` stands where the driver's library would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml as nvml
import pytest
from nvml_driver import MIB, NOT_AVAILABLE, Card, Driver

from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.agent.telemetry import gpu, sampler
from jupyter_smx.agent.telemetry.gpu import Gpus
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.policy.accounting.usage import read_host_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

US, PARENT = os.getpid(), os.getppid()


@pytest.fixture(autouse=True)
def _nothing_is_found_yet() -> Iterator[None]:
    gpu.find.cache_clear()
    yield
    gpu.find.cache_clear()


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Driver]:
    """Put a driver with some cards in the place of the machine's."""

    def put(*cards: Card) -> Driver:
        driver = Driver(cards)
        monkeypatch.setattr(nvml, "nvmlLib", driver)
        monkeypatch.setattr(nvml, "_nvmlGetFunctionPointer_cache", {})
        return driver

    return put


def test_only_the_jobs_own_processes_count(drive: Callable[..., Driver]) -> None:
    card = Card("GPU-a", compute={US: 500 * MIB, PARENT: 9_000 * MIB}, samples=[(US, 10, 30), (PARENT, 11, 60)])
    drive(card, Card("GPU-b", compute={PARENT: MIB}, samples=[(PARENT, 9, 99)]))
    gpus = Gpus(nvml)
    assert gpus.describe()[0] == {"id": "GPU-a", "name": card.name, "memory": card.total}
    assert gpus.measure([US]) == [(30.0, 500 * MIB), (0.0, 0)]
    assert gpus.measure([US, PARENT])[0][1] == 9_500 * MIB
    assert list(gpus.notes) == []


def test_each_sample_counts_once_and_the_newest_of_a_process_is_its_figure(drive: Callable[..., Driver]) -> None:
    card = Card("GPU-a", compute={US: 1, PARENT: 1}, samples=[(US, 20, 50), (US, 10, 90), (PARENT, 15, 70)])
    driver = drive(card)
    gpus = Gpus(nvml)
    assert gpus.measure([US, PARENT]) == [(100.0, 2)], "50 and 70, and no GPU is used more than wholly"
    assert gpus.measure([US]) == [(0.0, 1)], "nothing since"
    card.samples.append((US, 30, 40))
    assert gpus.measure([US]) == [(40.0, 1)]
    assert driver.asked_since == [0, 20]


def test_nonsense_of_a_driver_is_no_percentage(drive: Callable[..., Driver]) -> None:
    drive(Card("GPU-a", compute={US: 1}, samples=[(US, 1, 4_000_000), (US, 2, 20)]))
    assert Gpus(nvml).measure([US]) == [(20.0, 1)]


def test_a_process_that_draws_and_computes_is_one(drive: Callable[..., Driver]) -> None:
    drive(Card("GPU-a", compute={US: 7}, graphics={US: 7, PARENT: 1}))
    assert Gpus(nvml).measure([US, PARENT])[0][1] == 8


def test_parts_of_a_gpu_have_memory_and_no_percentage(drive: Callable[..., Driver]) -> None:
    parts = [Card("MIG-1", total=10 * MIB, compute={US: 3 * MIB}), None, Card("MIG-2", total=10 * MIB)]
    drive(Card("GPU-a", parts=parts))
    gpus = Gpus(nvml)
    assert [one["id"] for one in gpus.describe()] == ["MIG-1", "MIG-2"]
    assert gpus.measure([US]) == [(None, 3 * MIB), (None, 0)]
    assert ["MIG" in note for note in gpus.notes] == [True]


def test_what_the_driver_refuses_is_absent_and_said_once(drive: Callable[..., Driver]) -> None:
    refused = {"nvmlDeviceGetProcessUtilization": nvml.NVML_ERROR_NOT_SUPPORTED}
    forbidden = {"nvmlDeviceGetComputeRunningProcesses_v3": nvml.NVML_ERROR_NO_PERMISSION}
    drive(Card("GPU-a", compute={US: 5}, fails=refused), Card("GPU-b", name="T4", fails=forbidden))
    gpus = Gpus(nvml)
    assert gpus.measure([US]) == gpus.measure([US]) == [(None, 5), (None, None)]
    assert len(gpus.notes) == 2
    assert "T4 does not report the use of processes (Insufficient Permissions)" in list(gpus.notes)[1]


def test_memory_that_the_driver_does_not_know_is_not_zero(drive: Callable[..., Driver]) -> None:
    drive(Card("GPU-a", compute={US: NOT_AVAILABLE}, samples=[(US, 1, 20)]))
    assert Gpus(nvml).measure([US]) == [(20.0, None)]


def test_a_gpu_that_is_lost_in_the_middle_is_not_asked_again(drive: Callable[..., Driver]) -> None:
    card = Card("GPU-a", compute={US: 5}, samples=[(US, 1, 20)])
    drive(card)
    gpus = Gpus(nvml)
    assert gpus.measure([US]) == [(20.0, 5)]
    card.fails["nvmlDeviceGetComputeRunningProcesses_v3"] = nvml.NVML_ERROR_GPU_IS_LOST
    assert gpus.measure([US]) == [(None, None)]
    card.fails.clear()
    assert gpus.measure([US]) == [(None, None)]
    assert len(gpus.notes) == 1


@pytest.mark.parametrize("numbers", [(), (2**22 + 7,), (US,)])
def test_in_a_container_whole_gpus_are_measured_whatever_numbers_the_driver_tells(
    drive: Callable[..., Driver], numbers: tuple[int, ...]
) -> None:
    """Drivers tell the machine's, none, or the container's own with no memory and with samples of the machine's."""
    card = Card("GPU-a", compute=dict.fromkeys(numbers, 0), samples=[(2**22 + 7, 1, 13)])
    card.busy, card.used, card.reserved = 37, 5 * MIB, 400 * MIB
    drive(card, Card("GPU-b", busy=2))
    gpus = Gpus(nvml, whole=True)
    assert gpus.measure([US]) == [(37.0, 5 * MIB), (2.0, 0)]
    assert ["whole GPUs" in note for note in gpus.notes] == [True]


def test_of_whole_gpus_too_what_is_refused_is_absent(drive: Callable[..., Driver]) -> None:
    older = {"nvmlDeviceGetMemoryInfo_v2": nvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    refused = {"nvmlDeviceGetUtilizationRates": nvml.NVML_ERROR_NOT_SUPPORTED}
    lost = Card("GPU-c", used=MIB)
    drive(Card("GPU-a", used=MIB, reserved=MIB, fails=older), Card("GPU-b", used=MIB, fails=refused), lost)
    gpus = Gpus(nvml, whole=True)
    lost.fails["nvmlDeviceGetUtilizationRates"] = nvml.NVML_ERROR_GPU_IS_LOST
    assert gpus.measure([US]) == [(0.0, 2 * MIB), (None, MIB), (None, None)]
    parts = [Card("MIG-1", total=10 * MIB, used=3 * MIB)]
    drive(Card("GPU-a", parts=[*parts]))
    assert Gpus(nvml, whole=True).measure([US]) == [(None, 3 * MIB)]


def test_a_process_in_a_namespace_of_its_own_knows_it() -> None:
    if os.geteuid():
        pytest.skip("Only root may make a namespace here.")
    look = "from jupyter_smx.agent.system.processes import process; print(process.has_machine_pids())"
    before = ["unshare", "--pid", "--fork"]
    told = [
        subprocess.run([*words, sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
        for words in ([], before)
    ]
    outside = Path("/proc/self/ns/pid").readlink() == Path("pid:[4026531836]")
    assert told == [f"{outside}\n", "False\n"]


def test_a_gpu_that_fell_off_the_bus_hides_no_other(drive: Callable[..., Driver]) -> None:
    drive(Card("GPU-a", fails={"handle": nvml.NVML_ERROR_GPU_IS_LOST}), Card("GPU-b"))
    assert [one["id"] for one in Gpus(nvml).describe()] == ["GPU-b"]


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_DRIVER", "libno-such-driver.so.1")
    assert gpu.find() is None


def test_the_packed_agent_has_the_module_for_its_driver_where_none_is_installed(tmp_path: Path) -> None:
    look = "from jupyter_smx.agent.telemetry import gpu; print(gpu._nvml().__name__)"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); {look}"
    words = [sys.executable, "-I", "-S", "-c", code, str(agent_zipapp.write_archive(tmp_path))]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("jupyter_smx.agent.pynvml\n", "")


def test_a_driver_that_does_not_answer_is_none(drive: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    drive(Card("GPU-a")).init = nvml.NVML_ERROR_DRIVER_NOT_LOADED
    monkeypatch.setattr(gpu, "_DRIVER", None)
    assert gpu.find() is None


def test_figures_of_gpus_get_into_the_file_and_out_of_it_again(
    drive: Callable[..., Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card("GPU-a", compute={US: 5 * MIB}, samples=[(US, 1, 20)])
    drive(card, Card("GPU-b", fails={"nvmlDeviceGetProcessUtilization": nvml.NVML_ERROR_NOT_SUPPORTED}))
    monkeypatch.setattr(gpu, "_DRIVER", None)
    told: list[dict[str, Any]] = []
    one = sampler.Sampler(Loop(), str(tmp_path), str(tmp_path), lambda: [US], told.append)
    one.start(US)
    one._take_first()
    card.samples.append((US, 2, 60))
    one._take_next()
    one.finish()
    one.close(0.0)
    assert "gpu_percent" not in told[0]
    assert (told[1]["gpu_percent"], told[1]["gpu_memory_bytes"]) == (60.0, 5 * MIB)
    assert (one.peak["gpu_percent"], one.peak["gpu_memory_bytes"]) == (60.0, 5 * MIB)
    usage = read_host_usage("algo-1", (tmp_path / "samples").read_bytes())
    first, other = usage.gpus
    assert (first.id, first.name, first.memory_total_bytes) == ("GPU-a", card.name, card.total)
    assert first.percent[:2] == (None, 60.0)
    assert first.memory_bytes[1] == 5 * MIB
    assert other.percent[1] is None
    assert any("does not report" in note for note in usage.notes)
    assert json.loads((tmp_path / "samples").read_text().splitlines()[0])["version"] == 1


def test_no_driver_is_looked_for_while_somebody_waits_for_the_end(
    drive: Callable[..., Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that ends before its second sample; the next one on this host has a GPU from its second sample on."""
    driver = drive(Card("GPU-a", compute={US: 5 * MIB}))
    monkeypatch.setattr(gpu, "_DRIVER", None)

    def job(name: str, *, samples: int) -> dict[str, float]:
        (tmp_path / name).mkdir()
        told: list[dict[str, float]] = []
        folder = str(tmp_path / name)
        one = sampler.Sampler(Loop(), folder, folder, lambda: [US], told.append)
        one.start(US)
        for take in [one._take_first, one._take_next][:samples]:
            take()
        one.finish()
        one.close(0.0)
        return told[-1]

    assert "gpu_memory_bytes" not in job("short", samples=1)
    assert driver.inits == 0
    assert job("long", samples=2)["gpu_memory_bytes"] == 5 * MIB
    assert job("short-again", samples=1)["gpu_memory_bytes"] == 5 * MIB
    assert driver.inits == 1
