"""Random histories of the core.

``JUPYTER_SMX_RANDOM=1`` plays new and long ones, ``JUPYTER_SMX_LONG=1`` twenty times as many; the seed is printed, and
``JUPYTER_SMX_SEED`` plays one again.
"""

from __future__ import annotations

import os
import secrets

from hypothesis import HealthCheck, seed, settings

from jupyter_smx.testing.simulation.image_state_machine import ImageStateMachine
from jupyter_smx.testing.simulation.state_machine import ControllerStateMachine

LONG = bool(os.environ.get("JUPYTER_SMX_LONG"))

if LONG or os.environ.get("JUPYTER_SMX_RANDOM"):
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

TestHistories = ControllerStateMachine.TestCase
TestHistories.settings = _PROFILE
TestFarHistories = ImageStateMachine.TestCase
TestFarHistories.settings = settings(_PROFILE, max_examples=_PROFILE.max_examples // 2)
if not _PROFILE.derandomize:
    SEED = int(os.environ.get("JUPYTER_SMX_SEED") or secrets.randbits(32))
    print(f"{_PROFILE.max_examples} histories of {_PROFILE.stateful_step_count} steps, JUPYTER_SMX_SEED={SEED}")  # noqa: T201
    seed(SEED)(ControllerStateMachine)
    seed(SEED)(ImageStateMachine)
