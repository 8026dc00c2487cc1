"""What the bus may carry: few notices, in order, with nothing in them that is not everybody's business."""

from __future__ import annotations

import msgspec
import yaml
from fake_controller import job, pool
from hypothesis import given
from hypothesis import strategies as st
from jupyter_events.schema import EventSchema

from jupyter_smx.model.records.event import Event
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.server.bus_events import SCHEMA_PATH, reset_event, to_bus_events

SECRET = "/home/ana/.aws: password=hunter2"  # noqa: S105 - an example of what must not leak

jobs = st.builds(
    lambda number, step: job(number, step, message=SECRET, failure_type=SECRET),
    st.integers(1, 4),
    st.sampled_from(SecondaryStatus),
)
pools = st.builds(lambda number: pool(number, reason=SECRET), st.integers(1, 4))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    things = draw(st.lists(jobs | pools, max_size=30))
    events = [
        Event(seq=seq, at=float(seq), **{"pool" if hasattr(thing, "state") else "job": thing})
        for seq, thing in enumerate(things, start=1)
    ]
    return draw(st.permutations(events))


@given(histories())
def test_there_is_one_notice_for_each_thing_and_it_is_the_newest(events: list[Event]) -> None:
    made = to_bus_events(events)
    newest: dict[str, int] = {}
    for event in events:
        key = f"job {event.job.id}" if event.job else f"pool {event.pool.id}"
        newest[key] = max(newest.get(key, 0), event.seq)
    assert {f"{notice.kind} {notice.id}": notice.seq for notice in made} == newest
    assert [notice.seq for notice in made] == sorted(newest.values())


@given(histories())
def test_no_notice_carries_a_message_and_each_fits_the_schema(events: list[Event]) -> None:
    schema = EventSchema(yaml.safe_load(SCHEMA_PATH.read_text(encoding="utf-8")))
    for notice in [*to_bus_events(events), reset_event(3, 1.5)]:
        data = msgspec.to_builtins(notice)
        schema.validate(data)
        assert SECRET not in str(data)


def test_a_job_that_was_deleted_is_told_by_its_id_alone() -> None:
    schema = EventSchema(yaml.safe_load(SCHEMA_PATH.read_text(encoding="utf-8")))
    (notice,) = to_bus_events([Event(seq=3, at=1.0, job=job(1)), Event(seq=4, at=2.0, deleted=job(1).id)])
    assert (notice.kind, notice.id, notice.status, notice.seq) == ("job", job(1).id, "Deleted", 4)
    schema.validate(msgspec.to_builtins(notice))
