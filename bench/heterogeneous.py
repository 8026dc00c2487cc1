"""An input-bound PyTorch job alone on its host, and fed by a data group over gRPC: time and price of a step."""

from __future__ import annotations

import importlib.util
import os
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.place import configuration, place

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from jupyter_smx.model.spec.instance import InstanceGroup

SCRIPT = Path(__file__).parent.parent / "examples" / "heterogeneous" / "train.py"
TRAINER, FEEDER = "bench.trainer", "bench.feeder"
PRICES = {TRAINER: 3.825, FEEDER: 1.836}
"""Dollars per hour, those of ml.p3.2xlarge and ml.c5.9xlarge: the second of the published comparisons."""
PUBLISHED = (
    ("ml.p4d.24xlarge, and with 2 × ml.c5.18xlarge", 0.192, 37.688, 0.086, 45.032),
    ("ml.p3.2xlarge, and with ml.c5.9xlarge", 1.193, 3.825, 0.184, 5.661),
)
"""Of Amazon's articles: the two clusters, seconds per step and dollars per hour of each."""
STEPS = 150


def run(options: argparse.Namespace) -> None:
    """Print a row for each cluster, then the ratios beside the published ones."""
    missing = [name for name in ("torch", "grpc") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"Not measured: {' and '.join(missing)} must be installed here (pip install torch grpcio).")
        return
    feeders = max(1, (os.cpu_count() or 2) - 1)
    with _catalogue(feeders), place():
        print(f"trainer: 1 vCPU at ${PRICES[TRAINER]}/h; data group: {feeders} vCPU at ${PRICES[FEEDER]}/h")
        heads = f"{'ms/step alone':>14} {'with group':>11} {'faster':>7} {'$/step alone':>13} {'with group':>11}"
        print(f"{'':44} {heads} {'saved':>6}")
        alone, fed = _measure(feeders, options.rounds)
        _row("here", alone, PRICES[TRAINER], fed, sum(PRICES.values()))
        for title, *figures in PUBLISHED:
            _row(title, *figures)


def _catalogue(feeders: int) -> AbstractContextManager[None]:
    """Let the administrator's catalogue have the two types, for the controllers that start meanwhile."""
    rows = [
        {"name": name, "vcpus": vcpus, "memory_gib": 2.0, "price_per_hour": PRICES[name]}
        for name, vcpus in ((TRAINER, 1), (FEEDER, feeders))
    ]
    return configuration({"ControllerApp": {"instance_types": rows}})


def _measure(feeders: int, rounds: int) -> tuple[float, float]:
    """Give the seconds of a step alone and with the group: medians over rounds that take turns."""
    from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup  # noqa: PLC0415 - after the folder is set

    alone = [InstanceGroup(name=HOMOGENEOUS, instance_type=TRAINER)]
    fed = [
        InstanceGroup(name="dnn", instance_type=TRAINER),
        InstanceGroup(name="data", instance_type=FEEDER, until="dnn"),
    ]
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for groups in (alone, fed):
            took[groups is fed].append(_step(groups, feeders))
    return statistics.median(took[False]), statistics.median(took[True])


def _step(groups: Sequence[InstanceGroup], augmentation: int) -> float:
    """Run the example once, and read what it says at its end."""
    import jupyter_smx as smx  # noqa: PLC0415 - heavy, and only wanted here

    parameters = {"steps": STEPS, "rounds": augmentation}
    job = smx.train(entry_point=SCRIPT, instance_groups=groups, hyperparameters=parameters, python=sys.executable)
    found = re.search(r"^(?:algo-\d+\W+)?step_ms=([0-9.]+)", job.wait().logs(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{job.name} did not say how long a step took:\n{job.logs()}")
    return float(found[1]) / 1000


def _row(title: str, alone: float, rate: float, fed: float, rate_fed: float) -> None:
    before, after = alone * rate / 3600, fed * rate_fed / 3600
    figures = f"{alone * 1000:14.1f} {fed * 1000:11.1f} {alone / fed:6.2f}× {before:13.7f} {after:11.7f}"
    print(f"{title:44} {figures} {1 - after / before:6.0%}")
