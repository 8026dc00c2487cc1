"""What is read of an agent's record of an end."""

from __future__ import annotations

import msgspec

from jupyter_smx.controller.state.job_runtime import JobRuntime, host_end
from jupyter_smx.model.status import DesiredState

HALF = "a\udc80b"
"""How Python gives the name of a file that is no UTF-8."""


def test_names_that_are_no_utf_8_can_be_written_down() -> None:
    said = {"type": "ValueError", "message": HALF, "traceback": HALF, "line": 1}
    record = {"exception": said, "errors": [HALF], "left_behind": [HALF], "failure": HALF, "reason": HALF}
    end = host_end("algo-1", record)
    assert msgspec.json.decode(msgspec.json.encode(end), type=type(end)) == end
    assert end.exception is not None
    assert end.exception.message == "a\\udc80b"


def test_what_opens_a_url_is_in_no_sentence_of_a_host() -> None:
    said = "channel a: sftp://me:hunter2@host/x cannot be reached (no)."
    error = {"type": "OSError", "message": said, "traceback": said, "line": 1}
    end = host_end("algo-1", {"failure": said, "reason": said, "errors": [said], "exception": error})
    assert "hunter2" not in str(end)
    assert end.errors == ("channel a: sftp://me:…@host/x cannot be reached (no).",)


def test_what_opens_a_url_is_in_no_message_and_what_is_no_text_is_none() -> None:
    told = host_end("algo-1", {"message": "https://u:hunter2@h/x?sig=hunter2"})
    assert told.message == "https://u:…@h/x?sig=…"
    assert host_end("algo-1", {"message": None}).message is None
    assert host_end("algo-1", {}).message == ""


def test_a_lost_host_is_told_with_the_words_of_its_engine_where_it_has_any() -> None:
    assert host_end("algo-1", None).failure == "Host algo-1 was lost while the job ran."
    told = host_end("algo-1", None, "its container ended with exit code 4.").failure
    assert told == "Host algo-1 was lost while the job ran: its container ended with exit code 4."


def test_code_that_reached_its_end_on_a_lost_host_is_said_to_have_ended() -> None:
    runtime = JobRuntime(hosts=("algo-1", "algo-2"), hosts_lost=True, exit_reasons={"algo-2": "its machine was reset."})
    runtime.record_exit("algo-2", DesiredState.RUN)
    assert [end.failure for end in runtime.host_ends()] == [
        "Host algo-1 was lost while the job ran.",
        "The code ended on algo-2, but the record of its end was lost with the host: its machine was reset.",
    ]
