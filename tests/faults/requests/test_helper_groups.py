"""Groups that help another one, on real hosts: drained when their leader is done, a failure when they fail before."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from world import kill

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from world import Ran, World

HELPED = (InstanceGroup(name="data", until="dnn"), InstanceGroup(name="dnn", instance_count=2))

SERVE = """
import signal, time
data, leader = os.environ["SM_CURRENT_INSTANCE_GROUP"] == "data", os.environ["SM_CURRENT_HOST"]
def wait_for(gate):
    while not os.path.exists(gate):
        time.sleep(0.002)
def drained(*_):
    open(os.path.join(os.environ["SM_MODEL_DIR"], "drained"), "w").close()
    print("drained", flush=True)
    raise SystemExit(7)
if data:
    signal.signal(signal.SIGTERM, {handler})
    print("serving", flush=True)
    while True:
        signal.pause()
"""


@pytest.fixture(scope="module")
def _helped(shared: World) -> World:
    shared.run(instance_groups=HELPED)
    return shared


@pytest.fixture
def helped(_helped: World) -> Iterator[World]:
    """Provide the module's world with an idle warm pool of such groups."""
    yield _helped.until_idle()
    _helped.stop_jobs()  # of a test that failed


def host_log(ran: Ran, host: str) -> str:
    return ran.world.client.log(ran.id, host, 0).data.decode()


def test_helpers_are_told_when_the_last_host_of_their_leader_has_ended_and_may_save_what_they_have(
    helped: World,
) -> None:
    gate = helped.gate()
    wait = f"if leader == 'algo-3': wait_for({str(gate)!r})"
    ran = helped.submit(SERVE.format(handler="drained") + wait, instance_groups=HELPED)
    eventually_blocking(lambda: "done" in host_log(ran, "algo-2"), "one host of the leader is done", within=30.0)
    eventually_blocking(lambda: "serving" in host_log(ran, "algo-1"), "the helper serves", within=30.0)
    assert "drained" not in host_log(ran, "algo-1")
    gate.touch()
    job = ran.wait()
    assert job.state.value == "Completed", job.failure_reason
    assert [(end.host, end.cause, end.exit_code) for end in job.hosts] == [
        ("algo-1", "drained", 7),
        ("algo-2", "exit", 0),
        ("algo-3", "exit", 0),
    ]
    (artifact,) = [one for one in job.artifacts if one.name == "model.tar.gz"]
    with tarfile.open(artifact.path) as archive:
        assert any(name.endswith("drained") for name in archive.getnames())
    assert job.why is not None
    assert "Group data helps dnn: it is stopped when the hosts of dnn have ended." in job.why.notes


def test_a_helper_that_does_not_listen_is_ended_after_the_grace_and_the_job_completes(helped: World) -> None:
    gate = helped.gate()
    body = SERVE.format(handler="signal.SIG_IGN") + f"wait_for({str(gate)!r})"
    ran = helped.submit(body, instance_groups=HELPED)
    eventually_blocking(lambda: "serving" in host_log(ran, "algo-1"), "the helper serves", within=30.0)
    gate.touch()
    job = ran.wait()
    assert job.state.value == "Completed", job.failure_reason
    assert (job.hosts[0].cause, job.hosts[0].signal) == ("drained", 9)


def test_a_helper_may_end_before_its_leader(helped: World) -> None:
    gate = helped.gate()
    wait = SERVE.format(handler="drained").partition("if data:")[0] + f"if not data: wait_for({str(gate)!r})"
    ran = helped.submit(wait, instance_groups=HELPED)
    record = f"clusters/*/algo-1/spool/{ran.id}/end.json"
    eventually_blocking(lambda: list(helped.data.glob(record)), "the helper has its record", within=30.0)
    gate.touch()
    job = ran.wait()
    assert job.state.value == "Completed", job.failure_reason
    assert [(end.cause, end.exit_code) for end in job.hosts] == [("exit", 0)] * 3


def test_a_helper_that_fails_first_fails_the_job_and_its_leader_is_told(helped: World) -> None:
    lead = "import signal\nif os.environ['SM_CURRENT_INSTANCE_GROUP'] == 'data': raise SystemExit(5)\nsignal.pause()"
    job = helped.submit(lead, instance_groups=HELPED).wait()
    assert job.state.value == "Failed"
    assert "ExitCode 5" in job.failure_reason.splitlines()
    assert [end.cause for end in job.hosts] == ["exit", "stopped", "stopped"]


def test_a_leader_that_fails_is_the_one_to_blame(helped: World) -> None:
    fail = SERVE.format(handler="drained") + "if leader == 'algo-3': raise SystemExit(6)"
    job = helped.submit(fail, instance_groups=HELPED).wait()
    assert job.state.value == "Failed"
    assert "ExitCode 6" in job.failure_reason.splitlines()


def test_helpers_are_told_by_the_next_controller_where_the_first_one_died(world: World, tmp_path: Path) -> None:
    gate = tmp_path / "leaders"
    ran = world.submit(
        SERVE.format(handler="drained") + f"wait_for({str(gate)!r})", instance_groups=HELPED, keep_alive=0
    )
    eventually_blocking(lambda: "serving" in host_log(ran, "algo-1"), "the helper serves", within=30.0)
    kill(world.controller())
    gate.touch()
    job = ran.wait()
    assert job.state.value == "Completed", job.failure_reason
    assert job.hosts[0].cause == "drained"


def test_a_helper_of_nobody_is_refused_with_the_rule(shared: World) -> None:
    with pytest.raises(ValidationError, match="is not a group of this job"):
        shared.submit(instance_groups=(InstanceGroup(name="data", until="dnn"),))
