"""What controllers ask of a host over its socket, late, twice, broken and fenced."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from far_side import FOREVER

from jupyter_smx.agent import wire
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from far_side import Agent


def test_a_job_that_is_known_is_never_started_again(agent: Agent) -> None:
    job, lease = agent.start("print('once')")
    spec = agent.spec("print('twice')")
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["ok"]
    agent.end_of(job)
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["phase"] == "ended"
    assert agent.client.ask("forget", job=job)["ok"]
    assert agent.client.ask("run", job=job, lease=lease, spec=spec)["phase"] == "ended"
    assert not (agent.folder / "spool" / job).exists()


def test_another_job_in_the_way_is_busy(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    answer = agent.client.ask("run", job="other", lease=lease + 1, spec=agent.spec("pass"))
    assert (answer["code"], job in answer["message"]) == ("Busy", True)
    assert agent.client.ask("forget", job=job)["code"] == "Busy"
    agent.stop(job, lease)
    agent.end_of(job)


def test_bug_01_and_03_old_leases_and_epochs_are_fenced(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    assert agent.client.ask("stop", job=job, lease=lease + 1, grace=0, cause="stopped")["code"] == "Fenced"
    agent.stop(job, lease)
    agent.end_of(job)
    assert agent.client.ask("run", job="older", lease=lease - 1, spec=agent.spec("pass"))["code"] == "Fenced"
    newer = agent.connect()
    assert newer.ask("hello", protocol=1, epoch=5)["ok"]
    assert agent.client.is_closed()
    late = agent.connect()
    assert late.ask("hello", protocol=1, epoch=4)["code"] == "Fenced"
    assert late.ask("ping")["code"] == "Refused"
    assert newer.ask("ping")["ok"]
    late.close()
    newer.close()


def test_bug_01_no_event_of_a_job_is_read_as_one_of_the_next(agent: Agent) -> None:
    for number in range(50):
        job, lease = agent.start(f"print({number})")
        record = agent.end_of(job)
        assert (record["job"], record["lease"], agent.log(job)) == (job, lease, f"{number}\n")
        assert {(one["job"], one["lease"]) for one in agent.client.events} <= {(job, lease)}
        agent.client.events.clear()


def test_a_stream_that_breaks_at_any_byte_does_not_end_the_agent(agent: Agent) -> None:
    whole = wire.encode({"id": 1, "op": "hello", "protocol": 1, "epoch": 1})
    for cut in (0, 1, 4, 10, len(whole)):
        client = agent.connect()
        client.socket.sendall(whole[:cut])
        client.close()
    for garbage in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]", b"\x00\x00\x00\x02{]", b"GET / HTTP/1.1\r\n\r\n"):
        client = agent.connect()
        client.socket.sendall(garbage)
        assert client.is_closed()
        client.close()
    fresh = agent.connect()
    assert fresh.ask("hello", protocol=1, epoch=1)["ok"]
    fresh.close()


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"op": "run", "job": "../x", "lease": 1, "spec": {"source": ""}}, "ResourceNotFound"),
        ({"op": "run", "job": "x", "lease": 1, "spec": {"kind": "train"}}, "ValidationException"),
        ({"op": "run", "job": "x", "lease": 1, "spec": {"source": "", "kind": "tune"}}, "ValidationException"),
        ({"op": "run", "job": "x", "lease": "many", "spec": {"source": ""}}, "ValidationException"),
        ({"op": "dance"}, "ValidationException"),
        ({"op": "stop", "job": "nobody", "lease": 1}, "ResourceNotFound"),
        ({"op": "hello", "protocol": 99, "epoch": 1}, "Protocol"),
    ],
)
def test_a_bad_request_is_answered_with_a_sentence(agent: Agent, header: dict[str, Any], code: str) -> None:
    answer = agent.client.ask(**header)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert ":" in answer["message"]
    assert agent.run("print(1)")["text"] == "1\n"


def test_a_new_controller_reads_on_where_the_old_one_stopped(agent: Agent) -> None:
    job, lease = agent.start(FOREVER)
    agent.wait_for_log(job, "on")
    agent.client.close()
    agent.client = agent.connect()
    greeting = agent.client.ask("hello", protocol=1, epoch=2)
    known = greeting["jobs"][job]
    assert (known["phase"], known["lease"], known["log"]) == ("running", lease, 3)
    assert known["at"]["received"] < known["at"]["first_line"]
    agent.stop(job, lease)
    assert agent.end_of(job)["cause"] == "stopped"


def test_a_client_that_never_reads_does_not_stop_the_host(agent: Agent) -> None:
    deaf = agent.connect()
    deaf.ask("hello", protocol=1, epoch=1)
    deaf.socket.settimeout(0.2)
    job = "deaf-1"
    deaf.send("run", job=job, lease=1, spec=agent.spec("print('x' * 200000)"))
    eventually_blocking((agent.folder / "spool" / job / "end.json").exists, "the job has ended")
    with contextlib.suppress(TimeoutError, OSError):
        for _ in range(200):
            deaf.send("read", job=job, name="log", offset=0, limit=262_144)
    agent.client = agent.connect()
    assert agent.client.ask("hello", protocol=1, epoch=2)["ok"]
    deaf.close()
