"""Logs on their way to a browser: the headers of the cursor, the file and its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

if TYPE_CHECKING:
    from fake_controller import FakeController


async def test_the_names_of_all_hosts_come_back(jp_fetch: Any, controller: FakeController) -> None:
    controller.answer("GET", "/v1/jobs/a/logs", 200, b"x", X_Smx_Hosts="algo-1,algo-2", X_Smx_Attempts="2")
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "logs", params={"last": "7"})
    assert (answer.headers["X-Smx-Hosts"], answer.headers["X-Smx-Attempts"]) == ("algo-1,algo-2", "2")


async def test_the_whole_log_is_a_file_and_never_a_page(jp_fetch: Any, controller: FakeController) -> None:
    script = b"<script>alert(1)</script>"
    controller.answer("GET", "/v1/jobs/a/logs/whole", 200, script)
    answer = await jp_fetch("jupyter-smx", "jobs", "a", "logs", "whole", params={"name": "digits-1 ü.log"})
    assert answer.body == script
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''digits-1%20%C3%BC.log"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Length"] == str(len(script))


@pytest.mark.parametrize("name", ["../x", "..", "a//b"])
async def test_a_name_of_a_file_that_is_none(jp_fetch: Any, controller: FakeController, name: str) -> None:
    controller.answer("GET", "/v1/jobs/a/logs/whole", 200, b"x")
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("jupyter-smx", "jobs", "a", "logs", "whole", params={"name": name})
    assert caught.value.code == 404


async def test_a_log_of_a_job_that_is_none_keeps_the_controllers_sentence(
    jp_fetch: Any, controller: FakeController
) -> None:
    controller.refuse("GET", "/v1/jobs/a/logs/whole", 404, "ResourceNotFound", "No job is called 'a'.")
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("jupyter-smx", "jobs", "a", "logs", "whole")
    assert caught.value.code == 404
    assert b"No job is called" in caught.value.response.body
