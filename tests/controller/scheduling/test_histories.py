"""Random histories of the core, half as many of hosts of images, of remote ones, and of allocations that end.

``--hypothesis-profile=heavy`` plays more, new and longer ones, ``long`` twenty times as many.
``--hypothesis-seed`` plays one run again.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from jupyter_smx.testing.simulation.image_state_machine import ImageStateMachine
from jupyter_smx.testing.simulation.remote_state_machine import RemoteStateMachine
from jupyter_smx.testing.simulation.renewal_state_machine import RenewalStateMachine
from jupyter_smx.testing.simulation.state_machine import ControllerStateMachine

pytestmark = pytest.mark.timeout(600)

HISTORIES = 40 if settings.default.derandomize else settings.default.max_examples
STEPS = 30 if settings.default.derandomize else 60

TestHistories = ControllerStateMachine.TestCase
TestHistories.settings = settings(max_examples=HISTORIES, stateful_step_count=STEPS)
TestFarHistories = ImageStateMachine.TestCase
TestFarHistories.settings = settings(max_examples=HISTORIES // 2, stateful_step_count=STEPS)
TestRemoteHistories = RemoteStateMachine.TestCase
TestRemoteHistories.settings = settings(max_examples=HISTORIES // 2, stateful_step_count=STEPS)
TestRenewalHistories = RenewalStateMachine.TestCase
TestRenewalHistories.settings = settings(max_examples=HISTORIES // 2, stateful_step_count=STEPS)
