"""What Slurm's programs print becomes structs, whatever a site's nodes, reasons and limits look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.engines.slurm.parsers import QueueRow

QUEUE = """\
12|smx-0a1b2c3d-f00|RUNNING|1700000000|1700003600|gpu[01-02]|gpu|None
13+0|smx-0a1b2c3d-f01|PENDING|N/A|N/A||main|Resources
13+1|smx-0a1b2c3d-f01|PENDING|1700000900|1700004500||gpu|ReqNodeNotAvail, UnavailableNodes:gpu[01,03-04]
14|other|CANCELLED|1700000000|1700000001|n1|main|None
"""


def test_rows_of_the_queue_have_state_nodes_moments_and_reason() -> None:
    first, leader, component, cancelled = parsers.parse_queue(QUEUE)
    assert first == QueueRow(
        job="12",
        name="smx-0a1b2c3d-f00",
        state="RUNNING",
        start=1_700_000_000.0,
        end=1_700_003_600.0,
        nodes=("gpu01", "gpu02"),
        partition="gpu",
    )
    assert (leader.job, leader.component, leader.start, leader.nodes) == ("13", 0, None, ())
    assert (component.job, component.component) == ("13", 1)
    assert component.reason == "ReqNodeNotAvail, UnavailableNodes:gpu[01,03-04]"
    assert cancelled.state == "CANCELLED"


def test_lines_that_are_no_rows_are_left_out() -> None:
    assert parsers.parse_queue("Welcome to the cluster\n\nsqueue: warning|a\n") == []


@pytest.mark.parametrize("job", ["1234_[1-100%4]", "1234_5", "1234_5+0", "12+", "12²"])
def test_a_job_array_is_no_row_of_this_engine(job: str) -> None:
    assert parsers.parse_queue(f"{job}|smx-a|PENDING|N/A|N/A||main|Priority\n") == []


def test_jobs_of_other_names_are_left_out_before_their_nodes_are_expanded() -> None:
    assert [row.job for row in parsers.parse_queue(QUEUE, "smx-")] == ["12", "13", "13"]


_FIELD = st.text(max_size=12) | st.text(alphabet="0123456789_+[]-%,²٣", max_size=12)


@given(st.lists(st.lists(_FIELD, min_size=8, max_size=8)) | st.text())
def test_no_answer_of_squeue_raises(rows: list[list[str]] | str) -> None:
    text = rows if isinstance(rows, str) else "\n".join("|".join(row) for row in rows)
    parsers.jobs_by_name(parsers.parse_queue(text))


def test_a_range_that_no_cluster_has_is_not_expanded() -> None:
    assert parsers.expand_nodes("n[1-999999999999]") == ["n1-999999999999"]


def test_jobs_are_sorted_by_name_and_id_with_components_in_order() -> None:
    found = parsers.jobs_by_name(reversed(parsers.parse_queue(QUEUE)))
    assert {name: [*jobs] for name, jobs in found.items()} == {
        "smx-0a1b2c3d-f00": ["12"],
        "smx-0a1b2c3d-f01": ["13"],
        "other": ["14"],
    }
    assert [row.component for row in found["smx-0a1b2c3d-f01"]["13"]] == [0, 1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu[001-003,010],login", ["gpu001", "gpu002", "gpu003", "gpu010", "login"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("a-b[1-2].site", ["a-b1.site", "a-b2.site"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_a_list_of_nodes_is_expanded(text: str, names: list[str]) -> None:
    assert parsers.expand_nodes(text) == names


@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=8, unique=True), st.integers(1, 5))
def test_each_node_of_a_written_list_is_found_again(numbers: list[int], width: int) -> None:
    words = [str(number).zfill(width) for number in numbers]
    assert parsers.expand_nodes(f"node[{','.join(words)}]") == [f"node{word}" for word in words]


@given(st.text(alphabet="n[]0123456789,-x", max_size=30))
def test_no_list_of_nodes_raises(text: str) -> None:
    if "-" not in text:  # a range may be long
        assert all(parsers.expand_nodes(text))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93_784.0),
        ("2-00", 172_800.0),
        ("1-12:30", 131_400.0),
        ("02:03:04", 7_384.0),
        ("03:04", 184.0),
        ("30", 1_800.0),
        ("infinite", None),
        ("UNLIMITED", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_a_duration_is_seconds_or_no_limit(text: str, seconds: float | None) -> None:
    assert parsers.parse_duration(text) == seconds


@given(st.floats(1, 40 * 86_400, allow_nan=False))
def test_a_time_limit_is_never_shorter_than_what_was_asked_and_less_than_a_minute_longer(seconds: float) -> None:
    found = parsers.parse_duration(parsers.format_duration(seconds))
    assert found is not None
    assert seconds <= found < seconds + 61


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(null)", (0, "")),
        ("gpu:4", (4, "")),
        ("gpu:a100:4(S:0-1)", (4, "a100")),
        ("gpu:a100:2(S:0),gpu:h100:2(S:1),nvme:1", (4, "")),
        ("gpu:a100:1(IDX:0,2),lustre:1", (1, "a100")),
        ("shard:8", (0, "")),
    ],
)
def test_gpus_of_a_node_are_counted_with_their_kind(text: str, found: tuple[int, str]) -> None:
    assert parsers.parse_gpus(text) == found


def test_partitions_have_limit_size_and_gpus() -> None:
    main, gpu = parsers.parse_partitions(
        "main*|1-00:00:00|16|64000|(null)|3|up\ngpu|infinite|32+|256000+|gpu:a100:4|2|drain\n"
    )
    assert (main.name, main.is_default, main.limit, main.cpus, main.nodes) == ("main", True, 86_400.0, 16, 3)
    assert main.memory == 64_000 << 20
    assert (gpu.limit, gpu.cpus, gpu.gpus, gpu.gpu_kind, gpu.is_up) == (None, 32, 4, "a100", False)


@pytest.mark.parametrize(
    ("text", "job"), [("12\n", "12"), ("12;west\n", "12"), ("Your quota is fine\n9\n", "9"), ("", ""), ("none", "")]
)
def test_the_id_of_a_submission_is_found(text: str, job: str) -> None:
    assert parsers.parse_submission(text) == job


def test_the_record_of_a_job_keeps_values_with_spaces() -> None:
    text = "JobId=12 JobName=smx Comment=a comment with words JobState=CANCELLED Reason=None ExitCode=0:15"
    assert parsers.parse_record(text) == {
        "JobId": "12",
        "JobName": "smx",
        "Comment": "a comment with words",
        "JobState": "CANCELLED",
        "Reason": "None",
        "ExitCode": "0:15",
    }


def test_nodes_without_an_address_are_left_out() -> None:
    assert parsers.parse_addresses("n1 10.0.0.1\nn2 \nn3 name\n\nn4 10.0.0.4\n") == {"n1": "10.0.0.1", "n4": "10.0.0.4"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("KillWait                = 30 sec\n", 30.0), ("KillOnBadExit = 0", None)]
)
def test_the_seconds_between_two_signals_are_in_the_configuration(text: str, seconds: float | None) -> None:
    assert parsers.parse_kill_wait(f"Configuration data\n{text}") == seconds


def test_each_account_is_named_once() -> None:
    assert parsers.parse_accounts("lab||normal,high|normal\nlab|gpu|normal|\nphysics|||\n") == ["lab", "physics"]
