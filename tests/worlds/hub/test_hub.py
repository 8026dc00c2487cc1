"""JupyterHub with its proxy, a base URL and two users, each with a server, a controller and jobs as an own account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import websocket
from named_pipe import reading_job, write_pipe
from server_client import ServerClient, job_request, read_events

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub_process import HubProcess

pytestmark = [pytest.mark.heavy("hub"), pytest.mark.timeout(300)]

IDLE_LIMIT = 40
"""Seconds without activity after which the culler stops a server; a running job counts every 30 s."""

SHOW_ACCOUNT = "import getpass, os\nprint(getpass.getuser(), os.getuid(), os.path.expanduser('~'))\n"
"""A job that prints the account that it runs as."""

CELL = "%%train --name from-a-cell --keep-alive 10m\n" + SHOW_ACCOUNT


@pytest.fixture
def ada(hub: HubProcess) -> Iterator[ServerClient]:
    client = hub.client("ada")
    client.start_controller()
    yield client
    client.close()


@pytest.fixture
def bob(hub: HubProcess) -> Iterator[ServerClient]:
    client = hub.client("bob")
    client.start_controller()
    yield client
    client.close()


def test_each_user_has_an_own_account_and_sees_only_own_jobs_and_pools(
    hub: HubProcess, ada: ServerClient, bob: ServerClient
) -> None:
    jobs = {
        "ada": ada.submit(SHOW_ACCOUNT, base_name="of-ada"),
        "bob": bob.submit(SHOW_ACCOUNT, base_name="of-bob"),
    }
    for client, user in ((ada, "ada"), (bob, "bob")):
        job = client.wait_final(jobs[user])
        assert job["status"] == "Completed", job
        account = hub.machine.accounts[user]
        assert client.log(jobs[user]) == f"{user} {account.uid} {account.home}\n"
        assert not set(client.jobs()) & (set(jobs.values()) - {jobs[user]})
        (pool,) = client.pools()
        assert pool["name"] == job["pool"] or pool["id"] == job["pool"]
    assert ada.pools()[0]["id"] != bob.pools()[0]["id"]


def test_the_events_of_a_user_reach_only_the_pages_of_that_user(ada: ServerClient, bob: ServerClient) -> None:
    sockets = [client.connect("api/events/subscribe") for client in (ada, bob)]
    first = ada.submit("print(1)\n", base_name="events-of-ada")
    assert ada.wait_final(first)["status"] == "Completed"
    second = bob.submit("print(2)\n", base_name="events-of-bob")
    for client, events, job_id in zip((ada, bob), sockets, (first, second), strict=True):
        seen = read_events(events, lambda event, last=job_id: (event["id"], event["status"]) == (last, "Completed"))
        assert {job_id} <= {event["id"] for event in seen if event["kind"] == "job"} <= set(client.jobs())
        events.close()


@pytest.mark.parametrize("credential", ["token of bob", "no token", "login of bob"])
def test_a_visitor_without_the_right_gets_no_job_and_no_event_of_ada(
    hub: HubProcess, ada: ServerClient, credential: str
) -> None:
    before = set(ada.jobs())
    if credential == "login of bob":
        visitor = hub.browser("bob", "ada")
        assert visitor.send("GET", "lab").status_code == 403
    else:
        visitor = hub.client("ada", token=hub.token_of("bob") if credential == "token of bob" else "")
    for path in ("jobs", "pools", "doctor", "changes?since=0", "controller"):
        assert visitor.send("GET", f"jupyter-smx/{path}", allow_redirects=False).status_code == 403
    request = job_request("0" * 32, "print('not mine')\n", "not-mine")
    assert visitor.send("POST", "jupyter-smx/jobs", request).status_code == 403
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        visitor.connect("api/events/subscribe")
    assert refused.value.status_code == 403
    visitor.close()
    assert set(ada.jobs()) == before


def test_a_page_that_logged_in_by_the_form_lists_and_stops_with_its_cookies(hub: HubProcess, ada: ServerClient) -> None:
    page = hub.browser("ada", "ada")
    assert page.send("GET", "lab").ok
    job_id = ada.submit(reading_job(hub.make_pipe("ada", "stopped")), base_name="to-stop")
    assert page.jobs()[job_id]["name"].startswith("to-stop")
    assert page.xsrf_token()
    without = page.session.post(f"{page.base_url}jupyter-smx/jobs/{job_id}/stop", data="{}", timeout=30)
    assert without.status_code == 403
    stopped = page.send("POST", f"jupyter-smx/jobs/{job_id}/stop", {})
    assert stopped.status_code == 200, stopped.text
    assert page.wait_final(job_id)["status"] == "Stopped"
    page.close()


def test_a_cell_runs_as_a_job_that_only_its_user_sees(hub: HubProcess, ada: ServerClient, bob: ServerClient) -> None:
    before = set(ada.jobs())
    executed = ada.execute(CELL)
    assert executed.status == "ok", executed.text
    (job_id,) = set(ada.jobs()) - before
    job = ada.wait_final(job_id)
    assert (job["status"], job["base_name"]) == ("Completed", "from-a-cell")
    assert ada.log(job_id).startswith(f"ada {hub.machine.accounts['ada'].uid} ")
    assert job_id not in bob.jobs()


def test_a_named_server_has_the_same_jobs_and_reuses_the_warm_pool(hub: HubProcess, ada: ServerClient) -> None:
    first = ada.submit("print(1)\n", base_name="default-server")
    ada.wait_final(first)
    named = hub.client("ada", "second")
    assert set(named.jobs()) == set(ada.jobs())
    assert named.read("jupyter-smx/controller")["pid"] == ada.read("jupyter-smx/controller")["pid"]
    second = named.submit("print(2)\n", base_name="named-server")
    job = named.wait_final(second)
    assert (job["status"], job["start"]) == ("Completed", "warm")
    assert job["pool"] == ada.jobs()[first]["pool"]
    named.close()
    hub.stop_server("ada", "second")
    assert ada.jobs()[second]["status"] == "Completed"


def test_a_job_survives_a_stop_and_a_start_of_its_users_server(hub: HubProcess) -> None:
    pipe = hub.make_pipe("ada", "restart")
    client = hub.client("ada")
    job_id = client.submit(reading_job(pipe), base_name="survives")
    client.wait_log(job_id, "begun")
    hub.stop_server("ada")
    again = hub.client("ada")
    assert again.jobs()[job_id]["status"] == "InProgress"
    write_pipe(pipe, "done")
    job = again.wait_final(job_id)
    assert (job["status"], job["attempt"]) == ("Completed", 1)
    assert again.log(job_id) == "begun\ndone\n"


def test_a_job_ends_while_its_users_server_is_stopped(hub: HubProcess) -> None:
    pipe = hub.make_pipe("ada", "stopped-server")
    client = hub.client("ada")
    job_id = client.submit(reading_job(pipe), base_name="ends-alone")
    client.wait_log(job_id, "begun")
    hub.stop_server("ada")
    write_pipe(pipe, "done")
    again = hub.client("ada")
    assert again.wait_final(job_id)["status"] == "Completed"
    assert again.log(job_id) == "begun\ndone\n"


def test_the_culler_keeps_a_server_with_a_silent_job_and_stops_an_idle_one(hub: HubProcess) -> None:
    pipe = hub.make_pipe("ada", "culler")
    ada = hub.client("ada")
    job_id = ada.submit(reading_job(pipe), base_name="silent")
    ada.wait_log(job_id, "begun")
    # The server without a job is used later, so a culler that ignores jobs stops the other one first.
    bob = hub.client("bob")
    bob.start_controller()
    with hub.culler(IDLE_LIMIT) as culled:
        eventually_blocking(culled, "a server is culled", within=3 * IDLE_LIMIT)
        assert culled() == ["bob"]
        eventually_blocking(lambda: hub.server("bob") is None, "the idle server has ended", within=30)
    assert ada.jobs()[job_id]["status"] == "InProgress"
    write_pipe(pipe, "done")
    assert ada.wait_final(job_id)["status"] == "Completed"
