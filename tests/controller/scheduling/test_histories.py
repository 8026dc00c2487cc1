"""Random histories of the core: four for each example of Hypothesis' profile, half as many of hosts that are far away.

``--hypothesis-profile=heavy`` plays new and longer ones, ``long`` twenty times as many.
``--hypothesis-seed`` plays one run again.
"""

from __future__ import annotations

from hypothesis import settings

from jupyter_smx.testing.simulation.image_state_machine import ImageStateMachine
from jupyter_smx.testing.simulation.state_machine import ControllerStateMachine

EXAMPLES = settings.default.max_examples
STEPS = 30 if settings.default.derandomize else 60

TestHistories = ControllerStateMachine.TestCase
TestHistories.settings = settings(max_examples=4 * EXAMPLES, stateful_step_count=STEPS)
TestFarHistories = ImageStateMachine.TestCase
TestFarHistories.settings = settings(max_examples=2 * EXAMPLES, stateful_step_count=STEPS)
