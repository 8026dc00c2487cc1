"""What may be asked of a log: names of streams come whole, so nothing that cuts or follows lines goes with them."""

from __future__ import annotations

import pytest

from jupyter_smx.kernel.subcommands.log_subcommands import LOGS, LogRequest, log_request
from jupyter_smx.kernel.subcommands.table import parser_of
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

JOB = Job(
    id="a",
    name="fit-1",
    spec=JobSpec(kind="train", source="", instance_groups=(InstanceGroup(instance_count=2),)),
    started_at=7.0,
)


def parse_log_words(words: list[str], prog: str) -> LogRequest:
    return log_request(parser_of(LOGS, prog, terminal=False).read(words))


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("", ["fit-1/algo-1-7", "fit-1/algo-2-7"]),
        ("ALGO-2", ["fit-1/algo-2-7"]),
        ("fit-1/algo-1-7", ["fit-1/algo-1-7"]),
    ],
)
def test_streams_are_those_of_the_host_that_is_named(host: str, names: list[str]) -> None:
    assert [stream.name for stream in LogRequest(host=host, names=True).streams_of(JOB)] == names


def test_a_host_that_is_none_of_the_job_has_no_streams() -> None:
    with pytest.raises(ValidationError, match="'algo-3' is not one of its values"):
        LogRequest(host="algo-3", names=True).streams_of(JOB)


@pytest.mark.parametrize(
    ("words", "option"), [(["-f"], "-f"), (["--tail", "3"], "--tail"), (["--tail", "0"], "--tail")]
)
def test_what_shows_lines_is_refused_where_names_are_shown(words: list[str], option: str) -> None:
    with pytest.raises(ValidationError, match=f"{option} is not for --streams"):
        parse_log_words(["fit-1", "--streams", *words], "%smx")
    assert parse_log_words(["fit-1", "--streams", "--host", "algo-1"], "%smx") == LogRequest(
        job="fit-1", host="algo-1", names=True
    )
