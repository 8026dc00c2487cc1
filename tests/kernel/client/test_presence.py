from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_smx.kernel.front_end import Interactivity, interactivity_of, should_wait
from jupyter_smx.model.errors import ValidationError

LAB = Interactivity(kernel=True, allow_stdin=True)
NBCLIENT = Interactivity(kernel=True, allow_stdin=False)
TERMINAL = Interactivity(kernel=False, terminal=True)
SCRIPT = Interactivity(kernel=False, terminal=False)


@pytest.mark.parametrize(
    ("option", "setting", "presence", "waits"),
    [
        (False, None, LAB, False),
        (False, None, NBCLIENT, True),
        (False, None, TERMINAL, False),
        (False, None, SCRIPT, True),
        (False, "", NBCLIENT, True),
        (False, "0", NBCLIENT, False),
        (False, "1", LAB, True),
        (False, "True", TERMINAL, True),
        (False, "no", SCRIPT, False),
        (True, None, LAB, True),
        (True, "0", LAB, True),
        (True, "0", SCRIPT, True),
    ],
)
def test_a_magic_waits_when_told_to_or_when_nobody_is_there(
    option: Any, setting: Any, presence: Any, waits: Any
) -> None:
    assert should_wait(option=option, setting=setting, presence=presence) is waits


def test_a_setting_that_is_neither_is_refused() -> None:
    with pytest.raises(ValidationError, match="SMX_WAIT: 'maybe' is not a valid value"):
        should_wait(option=False, setting="maybe", presence=LAB)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_kernel_knows_its_user_from_the_request_that_runs(allowed: Any) -> None:
    kernel = SimpleNamespace(get_parent=lambda: {"content": {"allow_stdin": allowed}})
    assert interactivity_of(SimpleNamespace(kernel=kernel)) == Interactivity(kernel=True, allow_stdin=allowed)
    assert interactivity_of(None).kernel is False
