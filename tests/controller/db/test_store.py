from __future__ import annotations

import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pytest
from records import a_cluster, a_job, a_spec, a_step, an_id, news

from jupyter_smx.aws.sagemaker.requests.job_clients import add_variables
from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
from jupyter_smx.aws_endpoint.environment import client_variables
from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.errors import FencedError, RecordsError, StaleError
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.records.event import Event
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.status import SecondaryStatus, Status

replace = msgspec.structs.replace


def test_what_was_written_is_read_by_the_next_controller(store: Store, path: Path) -> None:
    job = a_job(cluster="c", lease=3, timings={"magic": 1.5}, spec=a_spec(hyperparameters={"lr": "0.1"}))
    cluster = a_cluster(lease=3, state=ClusterState.IN_USE)
    (event,) = store.write([job], [cluster], [news(job)])
    store.close()
    again = Store.open(path)
    assert again.job(job.id) == job
    assert again.live_jobs() == [job]
    assert again.live_clusters() == [cluster]
    assert again.cluster(cluster.id) == cluster
    assert again.events_since(0) == ([event], 1, False)
    assert again.last_seq() == event.seq == 1
    assert again.epoch == store.epoch + 1
    again.close()


def test_an_older_owner_is_fenced_and_writes_nothing(store: Store, path: Path) -> None:
    store.write([a_job(1)])
    newer = Store.open(path)
    with pytest.raises(FencedError):
        store.write([a_job(2)], events=[news(a_job(2))])
    with pytest.raises(FencedError):
        store.delete_job(a_job(1).id, 3.0)
    newer.write([a_job(3)])
    assert [job.id for job in newer.live_jobs()] == [an_id(1), an_id(3)]
    assert newer.events_since(0) == ([], 0, False)
    newer.close()


def test_a_verdict_never_changes_but_its_record_may_grow(store: Store) -> None:
    done = a_job(state=SecondaryStatus.COMPLETED)
    store.write([done])
    with pytest.raises(StaleError):
        store.write([replace(done, state=SecondaryStatus.FAILED)])
    with pytest.raises(StaleError):
        store.write([replace(done, state=SecondaryStatus.TRAINING)])
    store.write([replace(done, received={"model": 7})])
    assert store.job(done.id) == replace(done, received={"model": 7})
    assert store.live_jobs() == []


def test_a_write_of_an_earlier_lease_is_refused_with_everything_in_it(store: Store) -> None:
    cluster = a_cluster(lease=5)
    store.write(clusters=[cluster])
    with pytest.raises(StaleError):
        store.write([a_job()], [replace(cluster, lease=4)], [news(a_job())])
    store.write(clusters=[replace(cluster, lease=5, job="x")])
    store.write(clusters=[replace(cluster, lease=6)])
    assert store.live_clusters() == [replace(cluster, lease=6)]
    assert store.job(an_id(1)) is None
    assert store.last_seq() == 0


def test_an_ended_cluster_stays_ended(store: Store) -> None:
    ended = a_cluster(state=ClusterState.TERMINATED, lease=1)
    store.write(clusters=[ended])
    with pytest.raises(StaleError):
        store.write(clusters=[replace(ended, state=ClusterState.AVAILABLE, lease=2)])
    assert store.live_clusters() == []


def test_a_name_is_used_once(store: Store) -> None:
    store.write([a_job(1, name="train-aaaaaa")])
    with pytest.raises(ResourceInUseError, match="train-aaaaaa"):
        store.write([a_job(2, name="train-aaaaaa")])
    assert store.job(an_id(2)) is None


def test_numbers_of_events_are_never_given_twice(store: Store, path: Path) -> None:
    store.write(events=[news(a_job(n)) for n in range(5)])
    store.prune_events(keep=0)
    store.close()
    again = Store.open(path)
    assert again.last_seq() == 5
    assert [event.seq for event in again.write(events=[news(a_job(9))])] == [6]
    again.close()


def test_a_reader_learns_that_events_it_missed_are_gone(store: Store) -> None:
    store.write(events=[news(a_job(n)) for n in range(10)])
    assert [event.seq for event in store.events_since(7)[0]] == [8, 9, 10]
    assert [event.seq for event in store.events_since(0, limit=2)[0]] == [1, 2]
    store.prune_events(keep=4)
    assert store.events_since(6)[1:] == (10, False)
    assert store.events_since(5)[1:] == (10, True)
    assert store.events_since(10) == ([], 10, False)
    assert store.events_since(11) == ([], 10, True)
    store.prune_events(keep=0)
    assert store.events_since(10) == ([], 10, False)
    assert store.events_since(9) == ([], 10, True)


class TestARecordThatIsNone:
    """Only the unreadable record is skipped, whether an earlier version wrote it or a user edited it."""

    @pytest.fixture(autouse=True)
    def _records(self, store: Store) -> None:
        jobs = [a_job(1), a_job(2, state=SecondaryStatus.FAILED)]
        store.write(jobs, [a_cluster(1), a_cluster(2)], [news(job) for job in jobs])

    def damage(self, store: Store, table: str, column: str, key: str) -> None:
        told = store._raw.execute(f"UPDATE {table} SET {column} = '{{\"id\": 5}}' WHERE {key}")  # noqa: S608
        assert told.rowcount == 1

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_summary(self, store: Store, number: int, caplog: pytest.LogCaptureFixture) -> None:
        self.damage(store, "jobs", "summary", f"id = '{an_id(number)}'")
        assert [row.id for row in store.summaries()] == [an_id(3 - number)]
        assert [row.id for row in store.arrays.single_jobs(10)] == [an_id(3 - number)]
        assert "unreadable record skipped" in caplog.text

    def test_an_event(self, store: Store) -> None:
        self.damage(store, "events", "body", "seq = 1")
        events, newest, reset = store.events_since(0)
        assert [event.seq for event in events] == [2]
        assert (newest, reset) == (2, False)

    def test_a_live_job_and_a_live_cluster(self, store: Store, path: Path) -> None:
        store.write([a_job(3)])
        self.damage(store, "jobs", "record", f"id = '{an_id(1)}'")
        self.damage(store, "clusters", "record", f"id = '{a_cluster(1).id}'")
        store.close()
        again = Store.open(path)
        assert [job.id for job in again.live_jobs()] == [an_id(3)]
        assert [cluster.id for cluster in again.live_clusters()] == [a_cluster(2).id]
        again.close()

    def test_one_that_is_asked_for_by_name_is_told(self, store: Store) -> None:
        self.damage(store, "jobs", "record", f"id = '{an_id(2)}'")
        with pytest.raises(UnavailableError, match="cannot be read"):
            store.job(an_id(2))


def test_a_refused_write_gives_no_numbers(store: Store) -> None:
    store.write([a_job(1, state=SecondaryStatus.FAILED)])
    with pytest.raises(StaleError):
        store.write([a_job(2), a_job(1)], events=[news(a_job(2))])
    assert store.last_seq() == 0
    assert store.job(an_id(2)) is None


class TestFinding:
    @pytest.fixture(autouse=True)
    def _jobs(self, store: Store) -> None:
        store.write([a_job(n) for n in (1, 2)] + [a_job(3, spec=a_spec(base_name="prepare"))])

    def test_by_id_by_name_and_by_the_beginning_of_either(self, store: Store) -> None:
        job = a_job(1)
        for ref in (job.id, job.name, job.id[:4], job.name[:-2]):
            assert store.find_job(ref).id == job.id

    def test_by_base_name_gives_the_newest(self, store: Store) -> None:
        assert store.find_job("train").id == an_id(2)
        assert store.find_job("prepare").id == an_id(3)

    def test_an_ambiguous_beginning_names_the_candidates(self, store: Store) -> None:
        with pytest.raises(ResourceNotFoundError) as caught:
            store.find_job("trai")
        assert a_job(1).name in str(caught.value)
        assert a_job(2).name in str(caught.value)

    def test_a_typing_error_gets_the_nearest_names(self, store: Store) -> None:
        with pytest.raises(ResourceNotFoundError, match=r"Did you mean .*train"):
            store.find_job("tarin")
        with pytest.raises(ResourceNotFoundError):
            store.find_job("")
        with pytest.raises(ResourceNotFoundError):
            store.find_job("%")


def test_pages_go_from_the_newest_to_the_oldest_without_gaps(store: Store) -> None:
    same_moment = [a_job(n, created_at=7.0) for n in range(25)]
    store.write(same_moment)
    seen: list[str] = []
    while page := store.summaries(10, before=seen[-1] if seen else ""):
        seen += [summary.id for summary in page]
    assert seen == sorted((job.id for job in same_moment), reverse=True)


def test_a_page_of_one_status(store: Store) -> None:
    for number, state in enumerate(SecondaryStatus):
        store.write([a_job(number, state=state)])
    for status in Status:
        assert {summary.status for summary in store.summaries(50, status=status)} == {status}
    stopped = {summary.secondary_status for summary in store.summaries(50, status=Status.STOPPED)}
    cut_short = {SecondaryStatus.MAX_RUNTIME_EXCEEDED, SecondaryStatus.MAX_WAIT_TIME_EXCEEDED}
    assert stopped == {SecondaryStatus.STOPPED, *cut_short}


def test_a_summary_follows_every_write_and_holds_no_source(store: Store) -> None:
    job = a_job(spec=a_spec(source="secret = 1"))
    store.write([job])
    store.write([replace(job, state=SecondaryStatus.TRAINING)])
    (summary,) = store.summaries()
    assert summary.secondary_status is SecondaryStatus.TRAINING
    raw = sqlite3.connect(store.path)
    assert b"secret" not in raw.execute("SELECT summary FROM jobs").fetchone()[0]
    raw.close()


def test_bug_25_ten_thousand_finished_jobs_do_not_slow_a_page_down(store: Store) -> None:
    """Bug 25 of the catalogue: what was done long ago makes slow."""
    big = a_spec(source="x = 1\n" * 2_000)
    for start in range(0, 10_000, 500):
        store.write([a_job(start + n, spec=big, state=SecondaryStatus.COMPLETED) for n in range(500)])
    store.write([a_job(20_000)])

    def cost(status: Status | None, before: str) -> float:
        start = time.perf_counter()
        found = store.summaries(100, before=before, status=status)
        msgspec.json.encode(found)
        took = time.perf_counter() - start
        assert len(found) == {Status.FAILED: 0, Status.IN_PROGRESS: 0 if before else 1}.get(status, 100)
        return took

    # Reading ten thousand such records takes seconds.
    for status in (None, Status.COMPLETED, Status.FAILED, Status.IN_PROGRESS):
        for before in ("", an_id(5_000)):
            assert min(cost(status, before) for _ in range(5)) <= 0.05
    assert [job.id for job in store.live_jobs()] == [an_id(20_000)]


def test_a_page_shows_the_summary_that_was_told(store: Store) -> None:
    job = a_job()
    told = summary_of(job, cost=0.5)
    store.write([job], events=[Event(seq=0, at=1.0, job=told)])
    assert store.summaries() == [told]


def test_many_live_jobs_are_read_although_no_disk_takes_another_byte(store: Store) -> None:
    """A controller that starts reads them, and SQLite sorts much of that in a file of a system folder by default."""
    store.write(jobs=[a_job(number, spec=a_spec(source="x" * 100_000)) for number in range(1, 61)])
    sizes = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, sizes[1]))
    try:
        assert len(store.live_jobs()) == 60
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, sizes)


def test_only_a_finished_job_is_forgotten(store: Store) -> None:
    store.write([a_job(1), a_job(2, state=SecondaryStatus.STOPPED)])
    store.delete_job(an_id(1), 3.0)
    store.delete_job(an_id(2), 3.0)
    assert store.job(an_id(1)) is not None
    assert store.job(an_id(2)) is None
    assert store.events_since(0) == ([Event(seq=1, at=3.0, deleted=an_id(2))], 1, False)


def test_a_durable_write_waits_for_the_disk_and_the_next_does_not(store: Store) -> None:
    said: list[str] = []
    store._raw.set_trace_callback(said.append)
    store.write([a_job(1)], durable=True)
    store.write([a_job(2)])
    assert said[0] == "PRAGMA synchronous=FULL"
    assert said.index("PRAGMA synchronous=NORMAL") > said.index("COMMIT")
    assert store._raw.execute("PRAGMA synchronous").fetchone() == (1,)


def in_the_file(path: Path) -> int:
    """Count the jobs that would be left without the write-ahead log, once it was moved."""
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as raw:
        return int(raw.execute("SELECT count(*) FROM jobs").fetchone()[0])


def log_header(path: Path) -> bytes:
    """Read what a write-ahead log begins with, which changes when it begins anew."""
    return path.with_name(path.name + "-wal").read_bytes()[:32]


def test_a_checkpoint_moves_the_write_ahead_log_into_the_file(store: Store, path: Path) -> None:
    assert store.checkpoint()
    store.write([a_job(n) for n in range(50)])
    assert in_the_file(path) == 0
    assert store.checkpoint()
    assert in_the_file(path) == 50
    assert len(store.live_jobs()) == 50


def test_the_first_write_after_a_checkpoint_does_not_begin_the_log_anew_which_would_wait_for_the_disk(
    store: Store, path: Path
) -> None:
    store.write([a_job(1)])
    before = log_header(path)
    store.checkpoint()
    begun = log_header(path)
    assert begun != before
    store.write([a_job(2)])
    assert log_header(path) == begun
    assert in_the_file(path) == 1


def test_a_log_that_grew_is_short_again_when_it_was_moved(store: Store, path: Path) -> None:
    store.write([a_job(n, spec=a_spec(source="x = 1\n" * 50_000)) for n in range(20)])
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size > 4 << 20
    store.checkpoint()
    assert log.stat().st_size <= 1 << 20


def test_what_somebody_reads_in_the_log_is_moved_when_he_is_through(store: Store, path: Path) -> None:
    store.write([a_job(1)])
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("SELECT id FROM jobs UNION ALL SELECT id FROM jobs")
        rows.fetchone()
        store.write([a_job(2)])
        assert not store.checkpoint()
        rows.close()
    assert store.checkpoint()
    assert in_the_file(path) == 2


def test_a_checkpoint_of_records_that_are_away_makes_no_others(store: Store, path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(RecordsError, match="cannot be written: unable to open"):
        store.checkpoint()
    assert not path.exists()


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from records import a_job, an_id
from jupyter_smx.controller.db.store import Store
from test_store import news
store = Store.open(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 1_000_000):
    store.write([a_job(number)], events=[news(a_job(number))])
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.processes
def test_a_killed_writer_loses_nothing_that_it_acknowledged(path: Path) -> None:
    dice = random.Random(4)  # noqa: S311 - where to kill, not a secret
    folders = [str(folder) for folder in Path(__file__).parents[:2]]
    start = acknowledged = 0
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(path), str(start), *folders]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(dice.randrange(1, 400)):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split(b"\n")[:-1]
            acknowledged = int(rest[-1]) if rest else acknowledged
        store = Store.open(path)
        found = len(store.live_jobs())
        assert found in (acknowledged + 1, acknowledged + 2)
        assert store.last_seq() == found
        store.close()
        start = found


def test_a_full_disk_loses_the_write_and_keeps_the_store(store: Store) -> None:
    store.write([a_job(1)])
    pages = store._raw.execute("PRAGMA page_count").fetchone()[0]
    store._raw.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(UnavailableError, match=r"full.*free some space"):
        store.write([a_job(n, spec=a_spec(source="x" * 100_000)) for n in range(2, 5)])
    long = [replace(news(a_job(n)), job=summary_of(a_job(n, transitions=(a_step("x" * 100_000),)))) for n in range(3)]
    with pytest.raises(UnavailableError):
        store.write(events=[news(a_job(1)), *long])
    assert store.last_seq() == 0
    store._raw.execute("PRAGMA max_page_count=1000000")
    assert [event.seq for event in store.write(events=[news(a_job(1))])] == [1]
    store.write([a_job(5)])
    assert [job.id for job in store.live_jobs()] == [an_id(1), an_id(5)]


def test_a_store_leaves_no_descriptor_open(path: Path) -> None:
    before = psutil.Process().num_fds()
    store = Store.open(path)
    store.write([a_job()])
    store.close()
    store.close()
    assert psutil.Process().num_fds() == before


def test_no_reader_gets_the_key_of_the_front_from_a_record_of_an_earlier_version(store: Store, path: Path) -> None:
    """Earlier versions had the key among the variables of a job in smx.sqlite."""
    endpoint = Endpoint(4711, "SMXEARLIER", "earlier" * 6)
    own = {"LEVEL": "1"}
    job = a_job(spec=a_spec(environment=add_variables(own, client_variables(endpoint, Path("/sdk"), own))))
    assert endpoint.secret_key in job.spec.environment.values()
    store.write([job])
    assert endpoint.secret_key.encode() in raw_record(path, job.id), "the record is as earlier versions wrote it"
    store.close()
    again = Store.open(path)
    for found in (again.job(job.id), again.find_job(job.name), again.find_job(job.id[:12]), *again.live_jobs()):
        assert found is not None
        assert found.spec.environment == {**job.spec.environment, "AWS_SECRET_ACCESS_KEY": ""}
        assert replace(found, spec=job.spec) == job
    again.write([replace(again.find_job(job.id), state=SecondaryStatus.COMPLETED)])
    assert endpoint.secret_key.encode() not in raw_record(path, job.id)
    again.close()


def raw_record(path: Path, job_id: str) -> bytes:
    with closing(sqlite3.connect(path)) as raw:
        return bytes(raw.execute("SELECT record FROM jobs WHERE id = ?", (job_id,)).fetchone()[0])
