"""What ``doctor`` advises if several controllers give away one machine."""

from __future__ import annotations

from jupyter_smx.policy.limits import Limits
from jupyter_smx.policy.scheduling.machine_sharing import sharing_advice

WHOLE = Limits(cpus=16, memory_gib=62.0)


def test_controllers_that_each_have_the_whole_machine_get_a_line_with_equal_shares() -> None:
    advice = sharing_advice(WHOLE, ["bob", "ann", "bob"], 16, 62.0)
    assert advice.startswith("3 other controllers on this machine (of ann, bob), ")
    assert advice.endswith(": c.ControllerApp.cpus = 4; c.ControllerApp.memory_gib = 15.5")
    assert "\n" not in advice


def test_the_shares_of_a_small_machine_are_valid() -> None:
    advice = sharing_advice(WHOLE, [f"user{number}" for number in range(30)], 2, 1.0)
    assert advice.endswith("c.ControllerApp.cpus = 1; c.ControllerApp.memory_gib = 0.1")


def test_a_controller_alone_gets_no_advice() -> None:
    assert sharing_advice(WHOLE, [], 16, 62.0) == ""


def test_controllers_whose_limits_fit_into_the_machine_get_no_advice() -> None:
    shares = Limits(cpus=8, memory_gib=31.0)
    assert sharing_advice(shares, ["ann"], 16, 62.0) == ""
    assert sharing_advice(shares, ["ann", "bob"], 16, 62.0) != ""
    assert sharing_advice(Limits(cpus=8, memory_gib=40.0), ["ann"], 16, 62.0) != ""
