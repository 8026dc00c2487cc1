"""``make gpu-check`` on a machine whose GPU, driver and torch are ours, on one without a GPU, and its verdicts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_machine
import pytest

from bench.gpu_check import report, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
NAMES = ["cuda_after_preload", "first_kernel", "usage", "sequence", "assignment", "library"]


def run(out: Path, variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    options = ["--wheels", os.devnull, "--out", str(out), "--commit", "c0ffee", "--date", "2026-11-26"]
    command = [sys.executable, "-m", "bench.gpu_check", *options, *words]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def document(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "gpu-check.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.CompletedProcess[str], dict[str, Any]]]:
    """Run it once. A host may hide /tmp from its jobs, so the machine is made elsewhere."""
    if gpu_machine.missing_reason():
        pytest.skip(gpu_machine.missing_reason())
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="gpu-machine-", dir=ROOT / "build"))
    out = tmp_path_factory.mktemp("out")
    try:
        said = run(out, gpu_machine.install(folder), "--warm=2", "--cold=1", "--seconds=4", "--mib=256")
        yield said, document(out)
    finally:
        shutil.rmtree(folder)


def test_a_machine_with_a_gpu_gets_a_verdict_on_each_check(ran: tuple[Any, dict[str, Any]]) -> None:
    said, found = ran
    seen = {check["name"]: (check["verdict"], check["reasons"]) for check in found["checks"]}
    library = seen.pop("library")
    assert seen == {name: ("ok", []) for name in NAMES[:-1]}, said.stdout + said.stderr
    failed = found["checks"][-1]["figures"]["warm"]["failure"]
    assert library[0] == ("failed" if failed else "ok")
    assert said.returncode == int(bool(failed))
    assert said.stdout.splitlines()[-1].startswith(f"{found['seconds']} s in all")


def test_its_figures_are_those_of_the_driver(ran: tuple[Any, dict[str, Any]]) -> None:
    figures = {check["name"]: check["figures"] for check in ran[1]["checks"]}
    assert figures["cuda_after_preload"]["warm_preloaded"]
    assert figures["first_kernel"]["counts"] == {"plain Python": 2, "cold job": 1, "warm job": 2}
    whole, part = figures["usage"]["loads"].values()
    assert whole["smi_percent"] > part["smi_percent"] > 0
    assert part["mib"] >= 256
    assert figures["sequence"]["between_mib"] == figures["sequence"]["after_mib"] == 0
    assert figures["assignment"]["first"]["variables"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert figures["assignment"]["second"]["began"] > figures["assignment"]["first"]["ended"]


def test_the_page_has_card_driver_date_and_commit_and_a_part_for_each_check(ran: tuple[Any, dict[str, Any]]) -> None:
    page = report.page(ran[1])
    for words in (gpu_machine.NAME, "| driver | 1.2.3 |", "| date | 2026-11-26 |", "| commit | `c0ffee` |"):
        assert words in page
    assert page.count("\n## ") == 1 + len(NAMES)


def test_without_a_gpu_it_says_what_it_would_do(tmp_path: Path) -> None:
    said = run(tmp_path, {"PATH": str(tmp_path)})
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("There is no GPU: this machine has no nvidia-smi. Nothing was measured.")
    assert all(f"\n  {name} " in said.stdout for name in NAMES)
    assert [(check["name"], check["verdict"]) for check in document(tmp_path)["checks"]] == [
        (name, "skipped") for name in NAMES
    ]


COLD = {"start": "cold", "preloaded": True, "available": True, "error": 1e-7}
WARM = {**COLD, "start": "warm"}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"start": "cold"}, "not warm"),
        ({"preloaded": False}, "not imported before"),
        ({"available": False}, "is_available"),
        ({"error": float("nan")}, "product"),
    ],
)
def test_a_job_in_a_fork_is_judged_by_what_it_computed(changed: dict[str, Any], word: str) -> None:
    found = verdicts.judge_preload(COLD, {**WARM, **changed})
    assert (len(found), word in "".join(found)) == (int(bool(word)), True)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"percent": 60.0}, "Utilisation differs"),
        ({"percent": None}, "Utilisation is not known"),
        ({"percent": 0.0, "smi_percent": 0.0}, "no load"),
        ({"mib": 5000.0}, "Memory differs"),
        ({"smi_mib": None}, "Memory is not known"),
    ],
)
def test_usage_is_judged_beside_the_drivers(changed: dict[str, Any], word: str) -> None:
    row = {"percent": 95.0, "smi_percent": 99.0, "mib": 4600.0, "smi_mib": 4610.0}
    found = verdicts.judge_usage({**row, **changed})
    assert (len(found), word in "".join(found)) == (int(bool(word)), True)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"second_start": "cold"}, "not warm"),
        ({"during_mib": 2000.0}, "shows less"),
        ({"between_mib": 4500.0}, "more are in use between"),
        ({"after_processes": {"7": "python"}}, "hold the GPU after"),
    ],
)
def test_what_a_job_leaves_on_the_card_is_noticed(changed: dict[str, Any], word: str) -> None:
    row = {"second_start": "warm", "asked_mib": 4096, "before_mib": 3.0, "during_mib": 4600.0}
    row |= {"between_mib": 3.0, "after_mib": 3.0, "between_processes": {}, "after_processes": {}}
    found = verdicts.judge_sequence({**row, **changed})
    assert (len(found), word in "".join(found)) == (int(bool(word)), True)


def job(began: float, shown: str | None, cards: int = 1) -> dict[str, Any]:
    return {"began": began, "ended": began + 3, "cards": cards, "variables": {"CUDA_VISIBLE_DEVICES": shown}}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"second": job(1, "0")}, "at the same time"),
        ({"second": job(4, "1")}, "different GPUs"),
        ({"second": job(4, None)}, "CUDA_VISIBLE_DEVICES=None"),
        ({"local": job(8, "0")}, "type local"),
    ],
)
def test_jobs_that_share_a_card_are_noticed(changed: dict[str, Any], word: str) -> None:
    row = {"first": job(0, "0"), "second": job(4, "0"), "local": job(8, None), "machine_cards": 1}
    found = verdicts.judge_assignment({**row, "machine_variable": None, **changed})
    assert bool(found) == bool(word)
    assert word in "".join(found)


def test_a_warm_job_that_is_slower_or_cold_is_noticed() -> None:
    times = verdicts.kernel_times({"submitted": 0.0, "began": 1.0, "imported": 3.0, "context": 3.5, "kernel": 3.6})
    fast = {name: seconds / 10 for name, seconds in times.items()}
    assert verdicts.judge_times(times, fast, ["warm"]) == []
    assert len(verdicts.judge_times(fast, times, ["warm", "cold"])) == 2
