"""Random histories of the core. ``JUPYTER_SMX_RANDOM=1`` plays new and long ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from jupyter_smx.testing.machine import Histories

if os.environ.get("JUPYTER_SMX_RANDOM"):
    _PROFILE = settings(
        max_examples=int(os.environ.get("JUPYTER_SMX_EXAMPLES", "2000")),
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
else:
    _PROFILE = settings(
        max_examples=100,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

TestHistories = Histories.TestCase
TestHistories.settings = _PROFILE
