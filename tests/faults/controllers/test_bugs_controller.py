"""Bugs of other systems that a controller can have, too, by their numbers in our catalogue."""

from __future__ import annotations

import gc
import http.client
import itertools
import os
import secrets
import socket
import statistics
import sys
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agent.code.other_pythons import pythons
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.kernel.request import payload
from jupyter_smx.model import duration
from jupyter_smx.model.errors import ResourceLimitError, SmxError, ValidationError
from jupyter_smx.model.http_routes import CONTROLLER_PREFIX, ROUTES
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from world import World

LONG = bool(os.environ.get("JUPYTER_SMX_LONG"))
SOAK = 10_000 if LONG else 1_500
WARMED_UP = 500
NOW = 1_800_000_000.0


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


# 8: how long hosts are kept, job × pool × administrator × off, 0 and without limit

JOB = {"off": None, "0": 0, "30": 30, "600": 600}
POOL = {"fresh hosts": None, "pool kept for 0": 0, "pool kept for 600": 600}
ADMIN = {
    "usual": {},
    "cap 0": {"keep_alive_cap": 0},
    "cap 300": {"keep_alive_cap": 300},
    "quota 0": {"warm_pool_quota": {"*": 0}},
    "quota 1": {"warm_pool_quota": {"*": 1}},
    "chain over": {"max_keep_alive_chain": 0},
}


def kept_for(job: int | None, admin: str, before: int | None = None) -> int | None:
    """Return the documented keep-alive in seconds, or None if the request is refused.

    A job without a keep-alive leaves a pool that was kept ``before`` as it was.
    """
    wish = (before or 0) if job is None else job
    cap: Any = ADMIN[admin].get("keep_alive_cap", 3600)
    if wish > cap:
        return None
    return 0 if admin in {"quota 0", "chain over"} else wish


@pytest.mark.parametrize(("job", "pool", "admin"), [*itertools.product(JOB, POOL, ADMIN)])
def test_bug_08_the_wish_of_the_last_job_rules_within_what_the_administrator_allows(
    job: str, pool: str, admin: str
) -> None:
    limits: Any = ADMIN[admin]
    before = POOL[pool]
    if before is not None and kept_for(before, admin) is None:
        before = 0
    with Simulation(limits=replace(LIMITS, **limits)) as sim:
        if before is not None:
            sim.run_to_end(keep_alive=before)
            sim.pass_time(1.0)
        wish: dict[str, int] = {} if JOB[job] is None else {"keep_alive": JOB[job] or 0}
        expected = kept_for(JOB[job], admin, before)
        pools = sim.pools()
        if expected is None:
            with pytest.raises(ResourceLimitError, match=r"keep_alive_cap in jupyter_smx_config\.py"):
                sim.submit(**wish)
            assert sim.pools() == pools, "a refused wish changes no pool"
            return
        done = sim.run_to_end(**wish)
        left = [each for each in sim.pools() if each.state is ClusterState.AVAILABLE]
        told = sim.job(done).warm_pool
        assert told is not None
        if expected == 0:
            assert left == []
            assert told.status.value == "Terminated"
            assert told.reason, "it is said why"
        else:
            assert [round((each.expires_at or 0) - (each.available_since or 0)) for each in left] == [expected]


@pytest.mark.parametrize("word", ["off", "inf", "Infinity", "forever", "∞", "-1", "nan", "", "1e9", "10 m m", "٣"])
def test_bug_08_there_is_no_word_for_ever_and_a_wrong_one_is_refused_with_the_right_form(word: str) -> None:
    try:
        seconds = duration.parse(word)
    except ValidationError as refusal:
        assert (refusal.field, refusal.cure) == ("keep_alive", "For example 600, 10m or 1h30m.")  # noqa: PT017
    else:
        assert seconds == 3, "digits of another script are digits"


def test_bug_08_what_is_extended_by_hand_is_the_last_word_until_the_next_job(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=30)
    (pool,) = sim.pools()
    sim.call(lambda: sim.controller.facade.extend(pool.id, 900))
    assert round((sim.pool(pool.id).expires_at or 0) - sim.world.clock()) == 900
    with pytest.raises(ResourceLimitError):
        sim.call(lambda: sim.controller.facade.extend(pool.id, 10**6))
    with pytest.raises(ValidationError):
        sim.call(lambda: sim.controller.facade.extend(pool.id, -1))
    assert round((sim.pool(pool.id).expires_at or 0) - sim.world.clock()) == 900
    sim.run_to_end(keep_alive=0)
    assert sim.pools() == []


# 17: a cold start that was not announced


def test_bug_17_before_a_job_begins_it_is_said_whether_it_will_be_warm_cold_or_queued(sim: Simulation) -> None:
    def planned(**wish: Any) -> tuple[str, str]:
        why = sim.controller.facade.plan(sim.spec(**wish))["why"]
        return why["start"], why["sentence"]

    assert planned() == ("cold", "Cold: there was no warm pool.")
    sim.run_to_end(keep_alive=600)
    assert planned()[0] == "warm"
    busy = sim.submit(keep_alive=600)
    assert sim.job(busy).why is not None
    start, sentence = planned()
    assert start == "cold", "there is room, so nobody waits for a pool that is busy"
    assert "InUse" in sentence
    second = sim.submit(keep_alive=600)
    sim.pass_time(1.0)
    start, sentence = planned()
    assert start == "queued"
    assert "position 1." in sentence
    for job in (busy, second):
        sim.end_job(job)
    # The plan's answer is what then happens, and each record keeps it.
    said = planned(keep_alive=0)
    job = sim.run_to_end()
    why = sim.start_reason(job)
    assert (why.start, why.sentence) == said


@pytest.mark.parametrize("before", [0, 1])
def test_bug_17_what_a_plan_says_is_what_a_submission_does(sim: Simulation, before: int) -> None:
    for _ in range(before):
        sim.run_to_end(keep_alive=600)
    planned = sim.controller.facade.plan(sim.spec())["why"]
    job = sim.submit()
    why = sim.start_reason(job)
    assert (why.start, why.sentence) == (planned["start"], planned["sentence"])
    sim.pass_time(1.0)
    sim.end_job(job)


# 22: what one side pickles and the other cannot read


def test_bug_22_functions_of_another_python_are_refused_in_words_before_they_run(shared: World) -> None:
    packed = payload.pack({"number": 7}, shared.data / "payloads")
    offset = 1
    code = payload.pack({"number": lambda: offset}, shared.data / "payloads")
    job = shared.submit("print(number)", send=replace(code, protocol="2.7/0.1"))
    ended = job.wait()
    assert ended.state is SecondaryStatus.FAILED
    assert (ended.failure_reason or "").startswith("ClientError: ")
    assert "2.7" in (ended.failure_reason or "")
    assert payload.python_version() in (ended.failure_reason or ""), "both versions are named"
    assert job.runs() == 0
    values = replace(packed, protocol="2.7/0.1")
    for sent in (packed, values):
        assert shared.run("print(number)", send=sent).log() == "begun\n7\ndone\n"


def test_bug_22_values_go_to_jobs_of_other_pythons_and_back_and_functions_do_not(shared: World) -> None:
    others = [python for python in pythons() if python != sys.executable]
    if not others:
        pytest.skip("This machine has one version of Python.")
    offset = 1
    values = {"given": {"a": [1, 2.5, None], "b": (b"x", {3}), "day": date(2026, 1, 2)}}
    sent = payload.pack(values, shared.data / "payloads")
    code = payload.pack({"given": lambda: offset}, shared.data / "payloads")
    for python in {others[0], others[-1]}:
        back = "import sys\nback = given, sys.version_info[:2]\ndef f(): return 1"
        ended = shared.run(back, python=python, send=sent, receive=("back", "f")).job()
        (path,) = [artifact.path for artifact in ended.artifacts if artifact.name == "result.pkl"]
        received = payload.unpack(Path(path), ("back", "f"), writer=ended.python_version())
        version = ".".join(ended.python_version().split(".")[:2])
        assert received.back == (values["given"], tuple(map(int, version.split("."))))
        assert f"which Python {version} compiled" in received.missing["f"]
        refused = shared.until_idle().submit("pass", python=python, send=code, keep_alive=0).wait()
        assert "which Python" in refused.failure_reason
        assert refused.failure_reason.startswith("ClientError: send: given contains the code of a function or class")


def test_bug_22_hosts_whose_python_was_updated_in_place_get_no_job_of_the_new_one(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600, python_version="3.11")
    (pool,) = sim.pools()
    second = sim.run_to_end(keep_alive=600, python_version="3.13")
    why = sim.start_reason(second)
    assert why.sentence == f"Cold: pool {pool.name()} has Python version 3.11, this job needs 3.13."
    assert sim.pool(pool.id).state is ClusterState.TERMINATED, "nobody could use it any more"


# 25: a controller that has served for a month


def _kilobytes() -> int:
    gc.collect()
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0])


def _forget_the_fakes(sim: Simulation) -> None:
    world = sim.world
    for book in (world.start_counts, world.job_clusters, world.scripts):
        book.clear()  # type: ignore[attr-defined]
    for host in world.live_hosts():
        for remembered in (host.runs, host.forgotten_jobs, host.requests):
            remembered.clear()  # type: ignore[attr-defined]


@pytest.mark.heavy("faults")
@pytest.mark.timeout(600)
def test_bug_25_neither_time_nor_memory_of_a_job_grows_with_the_jobs_before_it(
    sim: Simulation, record_property: Any
) -> None:
    times: list[float] = []  # of this process: the load of other programs is no growth
    sizes: dict[int, int] = {}
    for number in range(SOAK):
        begin = time.process_time()
        job = sim.submit(keep_alive=3_000)
        if number == 0:
            sim.pass_time(1.0)
        sim.end_job(job)
        times.append(time.process_time() - begin)
        if number % 250 == 0:
            sim.controller.store.prune_events(20_000)
            sim.controller.store.checkpoint()
            _forget_the_fakes(sim)
            sizes[number] = _kilobytes()
    assert sim.job(job).state is SecondaryStatus.COMPLETED
    assert sum(sim.world.launches.values()) == 1
    first, last = sorted(sizes)[WARMED_UP // 250], max(sizes)
    slope = (sizes[last] - sizes[first]) * 1024 / (last - first)
    early = statistics.median(times[WARMED_UP : 2 * WARMED_UP])
    late = statistics.median(times[-WARMED_UP:])
    record_property("bytes_per_job", round(slope))
    record_property("seconds_per_job", (early, late))
    print(f"{SOAK} jobs: {slope:.0f} bytes per job, {early * 1e3:.2f} ms each early and {late * 1e3:.2f} ms late")  # noqa: T201
    assert slope <= 1024, sizes
    assert late <= 1.5 * early + 0.002


# 28: a page in a browser drives the API


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost.evil.example", "[::1]", ""]
)
def test_bug_28_every_route_of_the_socket_refuses_another_name_with_every_verb(shared: World, host: str) -> None:
    paths = {route.path.replace("{ref}", "train").replace("{name:path}", "model.tar.gz") for route in ROUTES}
    targets = [f"{CONTROLLER_PREFIX}{path}" for path in sorted(paths)]
    assert len(targets) >= 11
    # Pools of earlier tests may leave meanwhile, by themselves.
    leaves = ClusterState.RELEASING
    eventually_blocking(lambda: leaves not in {pool.state for pool in shared.pools()}, "the pools' ends")
    before = what_there_is(shared)
    for target in [*targets, "/", "/nothing"]:
        for verb in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            connection = http.client.HTTPConnection("localhost", timeout=10)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(10)
            connection.sock.connect(controller_launch.socket_address())
            connection.putrequest(verb, target, skip_host=True)
            connection.putheader("Host", host)
            connection.putheader("Origin", f"http://{host}")
            connection.putheader("Content-Length", "2")
            connection.endheaders(b"{}")
            answer = connection.getresponse()
            said = answer.read()
            connection.close()
            assert answer.status in ((403,) if host else (400, 403)), (verb, target, answer.status, said)
            assert "access-control-allow-origin" not in {name.lower() for name in answer.headers}
    assert what_there_is(shared) == before


def what_there_is(world: World) -> tuple[object, ...]:
    """Return the number of jobs, and the pools with their ends."""
    return len(world.client.jobs(1000)), [(pool.id, pool.state, pool.expires_at) for pool in world.pools()]


# 32: the machine is full


def test_bug_32_a_full_machine_is_a_queue_with_a_place_and_never_a_failure(sim: Simulation) -> None:
    jobs = [sim.submit(keep_alive=0) for _ in range(30)]
    sim.pass_time(5.0)
    books = sim.controller.live_state
    states = [sim.job(job).state for job in jobs]
    assert states == [SecondaryStatus.TRAINING] * 2 + [SecondaryStatus.PENDING] * 28
    assert [books.summary(sim.job(job)).queue_position for job in jobs] == [None, None, *range(1, 29)]
    whys = [sim.controller.facade.job(job).why for job in jobs[2:]]
    assert all(why is not None and why.start == "queued" for why in whys)
    assert [why.sentence.split(".")[0] for why in whys if why] == [
        f"Queued, position {place}" for place in range(1, 29)
    ]
    ended = []
    while len(ended) < len(jobs):
        for _, run in sim.world.running_jobs():
            ended.append(run.job)
            sim.end_job(run.job)
            # The waiting jobs move up at once, and their records say so.
            rest = [job for job in jobs if sim.job(job).state is SecondaryStatus.PENDING]
            places = [sim.controller.facade.job(job).why for job in rest]
            assert [why.sentence.split(",")[1].split(".")[0] for why in places if why] == [
                f" position {place}" for place in range(1, len(rest) + 1)
            ]
        sim.pass_time(2.0)
    assert ended == jobs, "in the order of their submission"
    assert all(sim.job(job).state is SecondaryStatus.COMPLETED for job in jobs)
    assert sim.world.most_hosts <= LIMITS.max_hosts


def test_bug_32_only_what_can_never_fit_is_refused_and_it_says_the_limit(sim: Simulation) -> None:
    with pytest.raises(SmxError, match="This machine runs at most 3 hosts"):
        sim.submit(hosts=4)
    job = sim.submit(job_id=secrets.token_hex(16), hosts=2)
    assert sim.job(job).why is not None
    sim.pass_time(1.0)
    sim.end_job(job)
