from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.display.card import MIME, card_of
from jupyter_smx.kernel.display.screen import Screen
from jupyter_smx.kernel.text.pages import text_page
from jupyter_smx.kernel.text.tables import table_page
from jupyter_smx.model.records.job import HostEnd, Job, JobSummary, RemoteException, Transition
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.channel import Artifact, Payload
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import DISK_WAIT, SecondaryStatus

SPEC = JobSpec(kind="train", source="secret = 1", base_name="train", submitted_at=100.0, environment={"K": "hidden"})


def a_job(**fields: Any) -> Any:
    return Job(**{"id": "ab" * 8, "name": "train-ababab", "spec": SPEC, "created_at": 100.0} | fields)


def test_a_card_says_what_hosts_wait_for_at_the_scheduler_of_their_engine() -> None:
    said = "Waiting at the engine slurm: Resources, position 3."
    why = Why(start="cold", sentence="Cold: there was no warm pool.")
    row = Transition(status=SecondaryStatus.STARTING, start_time=100.0, status_message=said)
    waiting = card_of(a_job(state=SecondaryStatus.STARTING, why=why, transitions=(row,)), 160.0)
    assert said in waiting.html()
    assert said in waiting.line()
    usual = msgspec.structs.replace(row, status_message="Launching requested instances.")
    assert (
        usual.status_message
        not in card_of(a_job(state=SecondaryStatus.STARTING, why=why, transitions=(usual,)), 160.0).html()
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.seen |= {name for name, _ in attrs}


OURS = {"div", "b", "pre", "small", "class", "role", "aria-label"}


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_nothing_from_outside_becomes_a_tag(name: str, sentence: str, line: str) -> None:
    evil = '<script>alert(1)</script>"><img src=x onerror=y>'
    ended = HostEnd(host="algo-1", cause="exit", exception=RemoteException(type=evil, message=line, traceback=""))
    job = a_job(
        name=name + evil,
        why=Why(start="cold", sentence=sentence + evil),
        state=SecondaryStatus.FAILED,
        hosts=(ended,),
        artifacts=(Artifact(name=evil, path="/p", size=1),),
    )
    tags = _Tags()
    tags.feed(card_of(job, 101.0, tail=(line, evil)).html())
    assert tags.seen <= OURS


def test_a_saved_card_says_when_it_was_true() -> None:
    running = card_of(a_job(state=SecondaryStatus.TRAINING, timings={"first_line": 100.006}), 160.0)
    assert re.search(r"Still running at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", running.html())
    assert "Training for 1 min" in running.html()
    assert running.id not in running.html()
    assert running.html().count("local") == 1
    over = card_of(a_job(state=SecondaryStatus.COMPLETED, ended_at=104.0), 999.0)
    assert "Ended" in over.html()
    assert "Completed after 4 s" in over.html()


def test_a_card_tells_why_how_fast_what_went_and_what_came() -> None:
    send = Payload(path="/secret/path", sha256="0", sizes={"cfg": 812})
    job = a_job(
        spec=JobSpec(kind="train", source="x", send=send, submitted_at=100.0),
        state=SecondaryStatus.COMPLETED,
        ended_at=101.0,
        why=Why(start="warm", sentence="Warm: reused the pool m5-1."),
        timings={"first_line": 100.006},
        received={"model": 1_200_000},
        artifacts=(
            Artifact(name="outputs/clean/a.csv", path="/p/a", size=1000),
            Artifact(name="outputs/clean/b.csv", path="/p/b", size=500),
            Artifact(name="result.pkl", path="/p/r", size=9),
        ),
    )
    text = card_of(job, 101.0).html()
    for words in ("Warm: reused", "Time to first line: 6 ms", "sent: cfg 812 B", "received: model 1.1 MiB"):
        assert words in text
    assert "files: outputs/clean 1.5 KiB" in text


def test_a_card_holds_no_source_no_path_and_no_environment() -> None:
    bundle = card_of(a_job(state=SecondaryStatus.TRAINING), 101.0).bundle()
    assert set(bundle) == {MIME, "text/html", "text/plain"}
    assert not re.search("secret|hidden", repr(bundle))
    assert bundle[MIME]["id"] == "ab" * 8


def test_a_card_holds_a_whole_summary_as_lists_and_events_have_it() -> None:
    job = a_job(state=SecondaryStatus.TRAINING)
    held = card_of(job, 101.0).bundle()[MIME]["summary"]
    assert msgspec.convert(held, JobSummary, strict=False) == summary_of(job)
    assert held.keys() == set(JobSummary.__struct_fields__)


def test_a_job_in_the_queue_says_its_place() -> None:
    waiting = summary_of(a_job(), queue_position=3)
    assert "queue position 3" in card_of(a_job(), 101.0, news=waiting).html()


def test_a_card_of_a_job_that_completed_says_which_variable_was_lost() -> None:
    said = "receive: 'x' could not be kept: No space left on device."
    hosts = (HostEnd(host="algo-1", cause="exit", exit_code=0, errors=(said,)),)
    spec = JobSpec(kind="train", source="x = 1", receive=("x", "y"))
    card = card_of(a_job(spec=spec, state=SecondaryStatus.COMPLETED, hosts=hosts, received={"y": 1}), 101.0)
    words = "The job completed, but 'x' could not be kept: No space left on device."
    assert (card.failure, words in card.line(), card.html().count("could not be kept")) == (words, True, 1)
    assert card_of(a_job(spec=spec, state=SecondaryStatus.TRAINING), 101.0).failure == ""


def test_a_job_whose_end_waits_for_room_says_so_on_its_card() -> None:
    message = f"{DISK_WAIT}The disk of /opt/ml/model is full: 0 B of 1 GiB are free."
    row = Transition(status=SecondaryStatus.TRAINING, start_time=100.0, status_message=message)
    why = Why(start="warm", sentence="Warm: reused the pool m5-1.")
    job = a_job(state=SecondaryStatus.TRAINING, transitions=(row,), why=why, timings={"first_line": 100.006})
    card = card_of(job, 101.0)
    assert message in card.line()
    assert message in card.html()


def test_a_failure_is_on_the_card_with_its_line() -> None:
    exception = RemoteException(type="KeyError", message="'x'", traceback="", line=14)
    hosts = (HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception),)
    card = card_of(a_job(state=SecondaryStatus.FAILED, hosts=hosts), 101.0)
    assert "train-ababab failed: KeyError: 'x' (line 14)" in card.line()


def test_what_a_job_said_stays_in_its_row_and_steers_no_terminal() -> None:
    text, html = table_page(("JOB", ""), [("a  b", "one\n\x1b[31mtwo\x1b[0m\x07")])
    assert text.splitlines()[1:] == ["a  b  one two"]
    assert ">one two</td>" in html


def test_tables_and_notes_are_escaped() -> None:
    text, html = table_page(("A", "B"), [("<b>", "x")])
    assert text == "A    B\n<b>  x"
    assert ">&lt;b&gt;</td>" in html
    assert text_page("<i>")[1] == "<pre>&lt;i&gt;</pre>"


def test_a_card_names_the_records_that_have_its_job() -> None:
    drawn: list[Any] = []
    publisher = SimpleNamespace(publish=lambda bundle, **_: drawn.append(bundle[MIME]["records_id"]))
    shell = SimpleNamespace(kernel=object(), display_pub=publisher, user_ns={})
    screen = Screen(shell, SimpleNamespace(), lambda: "0a1b")
    screen.show(card_of(a_job(state=SecondaryStatus.TRAINING), 101.0))
    screen.update(card_of(a_job(state=SecondaryStatus.COMPLETED), 102.0))
    assert drawn == ["0a1b", "0a1b"]


def test_nothing_overtakes_the_card_of_a_finished_job() -> None:
    drawn: list[Any] = []
    publisher = SimpleNamespace(publish=lambda bundle, **_: drawn.append(bundle[MIME]["summary"]["status"]))
    screen = Screen(SimpleNamespace(kernel=object(), display_pub=publisher), SimpleNamespace())
    screen.update(card_of(a_job(state=SecondaryStatus.COMPLETED), 101.0))
    screen.update(card_of(a_job(state=SecondaryStatus.TRAINING), 102.0))
    assert drawn == ["Completed"]
