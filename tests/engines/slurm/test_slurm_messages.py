"""Messages of Slurm's programs become errors: refused with a cure, not available now, or not known."""

from __future__ import annotations

import pytest

from jupyter_smx.engines.remote.machine import Completed, NoAnswerError, NotStartedError
from jupyter_smx.engines.slurm import reasons
from jupyter_smx.model.errors import RefusedError, UnavailableError

SUBMIT = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (f"{SUBMIT}Invalid account or account/partition combination specified", "account"),
        (f"{SUBMIT}Invalid qos specification", "qos"),
        (
            "sbatch: error: invalid partition specified: nowhere\n" + SUBMIT + "Invalid partition name specified",
            "partition",
        ),
        (f"{SUBMIT}Invalid generic resource (gres) specification", "gres"),
        (f"{SUBMIT}Invalid feature specification", "constraint"),
        (f"{SUBMIT}Requested reservation is invalid", "reservation"),
        (f"{SUBMIT}Requested time limit is invalid (missing or exceeds some limit)", "max_run"),
        (f"{SUBMIT}Requested node configuration is not available", "instance_type"),
        (f"{SUBMIT}Node count specification invalid", "instance_type"),
        (
            f"{SUBMIT}Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "instance_count",
        ),
        ("sbatch: unrecognized option '--mial-type=END'", "submit_words"),
        ("sh: 1: sbatch: not found", "engine"),
        (
            "sbatch: error: res_nsearch error\nsbatch: fatal: Could not establish a configuration source",
            "engine",
        ),
    ],
)
def test_a_refusal_names_the_field_slurms_words_and_a_cure(message: str, field: str) -> None:
    error = reasons.submit_error(Completed(1, b"", message))
    assert type(error) is RefusedError
    assert (error.field, error.transient) == (field, False)
    assert error.cure
    assert SUBMIT not in error.message


def test_a_refused_time_names_each_option_that_sets_it() -> None:
    done = Completed(1, b"", f"{SUBMIT}Requested time limit is invalid (missing or exceeds some limit)")
    cures = {reasons.submit_error(done).cure, reasons.never_error("PartitionTimeLimit", "12").cure}
    assert len(cures) == 1
    assert "--engine-option time=" in cures.pop()


def test_a_refusal_for_want_of_an_account_lists_those_of_the_user() -> None:
    done = Completed(1, b"", f"{SUBMIT}Invalid account or account/partition combination specified")
    assert "lab, physics" in str(reasons.submit_error(done, ["lab", "physics"]))


@pytest.mark.parametrize(
    "message",
    [
        f"{SUBMIT}Socket timed out on send/recv operation",
        f"{SUBMIT}Unable to contact slurm controller (connect failure)",
        f"{SUBMIT}Protocol authentication error",
        "something that no version of Slurm says today",
        "",
    ],
)
def test_a_submission_without_an_answer_may_have_been_accepted(message: str) -> None:
    error = reasons.submit_error(Completed(1, b"", message))
    assert type(error) is NoAnswerError
    assert error.transient


def test_an_answer_that_no_rule_names_is_a_refusal_with_all_lines_of_sbatch() -> None:
    lines = f"Welcome\nsbatch: error: Jobs need --mail-user\n{SUBMIT}Unspecified error\n"
    error = reasons.submit_error(Completed(1, b"", lines))
    assert type(error) is RefusedError
    assert error.message == "Slurm refused the job: Jobs need --mail-user; Unspecified error."
    assert error.cure


@pytest.mark.parametrize(
    "message",
    [
        f"{SUBMIT}Slurm temporarily unable to accept job, sleeping and retrying",
        f"sbatch: error: AssocMaxSubmitJobLimit\n{SUBMIT}Job violates accounting/QOS policy (job submit limit)",
        f"{SUBMIT}Slurm backup controller in standby mode",
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{SUBMIT}Job violates accounting/QOS policy",
    ],
)
def test_a_full_queue_is_waited_for(message: str) -> None:
    error = reasons.submit_error(Completed(1, b"", message))
    assert type(error) is UnavailableError
    assert error.transient


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (0, "", None),
        (97, "srun: error: n1: task 0: Exited with exit code 97", None),
        (1, "srun: error: Unable to create step for job 12: Invalid job id specified", NotStartedError),
        (1, "srun: error: Unable to confirm allocation for job 12: Invalid job id specified", NotStartedError),
        (1, "srun: error: Unable to create step for job 12: Job/step already completing or completed", NotStartedError),
        (1, "srun: error: Application launch failed: Communication connection failure", NoAnswerError),
        (1, "srun: error: Unable to create step for job 12: Unable to contact slurm controller", NotStartedError),
        (1, "Traceback (most recent call last):\nValueError: connect", None),
    ],
)
def test_the_end_of_a_step_tells_if_the_command_ran(code: int, message: str, kind: type | None) -> None:
    error = reasons.step_error("n1", Completed(code, b"", message))
    assert type(error) is (kind or type(None))


def test_a_question_without_an_answer_is_an_outage() -> None:
    error = reasons.ask_error("squeue", Completed(1, b"", "slurm_load_jobs error: Unable to contact slurm controller"))
    assert isinstance(error, UnavailableError)
    assert error.transient


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"EndTime": "5000", "PreemptTime": "None"}, ""),
        ({"EndTime": "Unknown"}, ""),
        ({}, ""),
        ({"EndTime": "1180", "PreemptTime": "None"}, "time limit"),
        ({"EndTime": "1181", "PreemptTime": "None"}, ""),
        ({"EndTime": "1010", "PreemptTime": "1000"}, "higher priority"),
    ],
)
def test_a_notice_has_the_reason_of_what_comes(shown: dict[str, str], words: str) -> None:
    said = reasons.notice_sentence(shown, 1_000, 120)
    assert words in said
    assert bool(said) == bool(words)


def test_a_job_that_is_requeued_ended_for_that_whatever_came_after() -> None:
    assert "queued the job again" in reasons.end_sentence("CANCELLED by 0", {"Restarts": "1"})
    assert "cancelled by user 0" in reasons.end_sentence("CANCELLED by 0", {"Restarts": "0"})


def test_a_job_whose_processes_slurm_ends_has_a_reason_although_slurm_shows_none() -> None:
    assert "or a node failed" in reasons.end_sentence("COMPLETING", {"PreemptTime": "None"})
    assert "higher priority" in reasons.end_sentence("COMPLETING", {"PreemptTime": "1000"})


@pytest.mark.parametrize(
    ("state", "expected"), [("", False), ("RUNNING", False), ("COMPLETING", False), ("CANCELLED by 0", True)]
)
def test_an_accounted_state_counts_once_the_job_has_ended(state: str, expected: bool) -> None:
    assert reasons.is_final(state) is expected
