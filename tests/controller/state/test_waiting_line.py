"""After any changes, the queue of jobs that wait for hosts answers as if it had read all live jobs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from records import a_job, a_spec, an_id

from jupyter_smx.controller.state.job_queue import JobQueue
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.status import DesiredState, SecondaryStatus, is_final
from jupyter_smx.policy.lifecycle.environment import BUILDING, BUILT

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

NUMBERS = range(1, 9)
STATES = [SecondaryStatus.PENDING, SecondaryStatus.COMPLETED, SecondaryStatus.FAILED]

arrays = st.sampled_from(
    [None, *(ArrayTask(id=each, name=each, index=1, size=8, max_concurrent=2) for each in "ab")],
)
after = st.lists(st.sampled_from([*map(an_id, NUMBERS), "a", "b"]), max_size=2, unique=True).map(tuple)
specs = st.builds(lambda array, after: a_spec(array=array, after=after), arrays, after)
changes = st.fixed_dictionaries(
    {
        "cluster": st.sampled_from(["", "c"]),
        "goal": st.sampled_from(DesiredState),
        "state": st.sampled_from(STATES),
        "timings": st.sampled_from([{}, {BUILDING: 1.0}, {BUILDING: 1.0, BUILT: 2.0}]),
    }
)


class Books:
    """Live jobs, finished jobs, and the queue that gets each change."""

    def __init__(self) -> None:
        self.live: dict[str, Job] = {}
        self.over: dict[str, Job] = {}
        self.line = self.read_anew()

    def read_anew(self) -> JobQueue:
        return JobQueue(self.live, self.over.get, lambda _: None)

    def save(self, job: Job) -> None:
        if is_final(job.state):
            self.live.pop(job.id, None)
            self.over[job.id] = job
        else:
            self.live[job.id] = job
        self.line.update([job])


def all_answers(books: Books, line: JobQueue) -> dict[str, object]:
    jobs = [*books.live.values(), a_job(99), *books.over.values()]
    return {
        "held": [job.id for job in line.blocked_jobs()],
        "engines": line.engines(),
        "head": line.head("local"),
        "next": [line.next_engine(()), line.next_engine(("local",))],
        "waiting": [job.id for job in line.queued_jobs("local")],
        "positions": [line.position(job) for job in jobs],
        "ahead": [line.ahead_of(job) for job in jobs],
        "orders": [line.dependency_status(job) for job in jobs],
        "awaited": [[each.id for each in line.dependents(job)] for job in jobs],
        "tasks": [(line.task_count(array), line.has_queued_tasks(array)) for array in "ab"],
    }


@given(st.lists(st.tuples(st.sampled_from(NUMBERS), changes), max_size=30), st.lists(specs, min_size=9, max_size=9))
@settings(deadline=None)
def test_a_line_that_followed_every_change_is_one_that_was_read_anew(history: list, specs: list) -> None:
    books = Books()
    for number, change in history:
        known = books.live.get(an_id(number))
        if an_id(number) in books.over:
            continue
        books.save(replace(known or a_job(number, spec=specs[number]), **change))
        assert all_answers(books, books.line) == all_answers(books, books.read_anew())


@given(
    st.lists(st.tuples(st.sampled_from(NUMBERS), changes), max_size=20),
    st.lists(st.tuples(st.sampled_from(NUMBERS), changes), max_size=5, unique_by=lambda pair: pair[0]),
    st.lists(specs, min_size=9, max_size=9),
)
@settings(deadline=None)
def test_places_that_are_told_before_they_are_written_down_are_the_ones_that_come_and_leave_the_line_as_it_was(
    history: list, news: list, specs: list
) -> None:
    books = Books()
    for number, change in history:
        if an_id(number) not in books.over:
            books.save(replace(books.live.get(an_id(number)) or a_job(number, spec=specs[number]), **change))
    coming = [
        replace(books.live.get(an_id(number)) or a_job(number, spec=specs[number]), **{**change, "state": STATES[0]})
        for number, change in news
        if an_id(number) not in books.over and not change["cluster"]
    ]
    before = all_answers(books, books.line)
    with books.line.preview(coming):
        told = [books.line.position(job) for job in coming]
    assert all_answers(books, books.line) == before
    for job in coming:
        books.live[job.id] = job
    books.line.update(coming)
    assert told == [books.line.position(job) for job in coming]


@given(st.lists(specs, min_size=9, max_size=9))
@settings(deadline=None)
def test_a_line_whose_jobs_are_all_over_remembers_nothing(specs: list) -> None:
    books = Books()
    jobs = [a_job(number, spec=specs[number]) for number in NUMBERS]
    for state in (SecondaryStatus.PENDING, SecondaryStatus.COMPLETED):
        for job in jobs:
            books.save(replace(job, state=state))
            books.line.dependency_status(job)
    kept = {name: value for name, value in vars(books.line).items() if isinstance(value, dict) and value}
    assert set(kept) <= {"_queues"}
    assert not any(vars(queue)["_arrays"] or len(queue) for queue in kept.get("_queues", {}).values())
