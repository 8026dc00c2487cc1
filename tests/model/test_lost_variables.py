"""Which variables of a job count as lost, and in which words that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_smx.agent.code import variable_reason
from jupyter_smx.model.records import lost_variables
from jupyter_smx.model.records.job import HostEnd

FULL = "could not be kept: No space left on device."


def host(name: str, *errors: str) -> HostEnd:
    return HostEnd(host=name, cause="exit", exit_code=0, errors=errors)


def test_the_sentences_of_agents_are_those_that_the_records_are_read_by() -> None:
    assert variable_reason.START == lost_variables.START
    assert lost_variables.BY_THE_CODE == (variable_reason.NOT_DEFINED, variable_reason.NOT_PICKLED)
    sentence = variable_reason.format_reason("it's", "is gone.")
    assert lost_variables.find_reasons("it's", [sentence, "receive: 'its' is gone."]) == ["is gone."]


def test_a_variable_is_lost_unless_it_came_or_the_code_did_not_give_it() -> None:
    hosts = [
        host("algo-1", f"receive: 'full' {FULL}", "receive: 'typo' is not defined at the end of the cell."),
        host("algo-2", "receive: 'lock' cannot be pickled (TypeError: lock).", f"receive: 'came' {FULL}"),
    ]
    wanted = ("came", "full", "typo", "lock", "silent")
    assert lost_variables.lost_variables(wanted, {"came": 1}, hosts) == {
        "full": FULL,
        "silent": lost_variables.UNKNOWN_REASON,
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_variable_that_one_host_could_not_keep_is_lost_although_another_has_none(order: tuple[int, int]) -> None:
    hosts = [host("algo-1", f"receive: 'm' {FULL}"), host("algo-2", "receive: 'm' is not defined at the end.")]
    assert lost_variables.lost_variables(("m",), {}, [hosts[at] for at in order]) == {"m": FULL}


def test_variables_that_were_lost_for_one_reason_are_named_together() -> None:
    hosts = [host("algo-1", f"receive: 'a' {FULL}", f"receive: 'b' {FULL}", "receive: 'c' was not kept.")]
    said = lost_variables.completed_message(("a", "b", "c"), {}, hosts)
    assert said == f"The job completed, but 'a', 'b' {FULL} 'c' was not kept."
    assert lost_variables.completed_message((), {}, hosts) == ""


def test_the_browser_knows_how_the_message_of_a_loss_begins() -> None:
    known = (Path(__file__).parents[2] / "src" / "format" / "jobText.ts").read_text()
    assert f"'{lost_variables.COMPLETED_BUT}'" in known
