"""Hosts of images with a user, an entry point, a working folder, and files in ``/opt/ml``, at a real daemon."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images, settings_images
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

ALL = ("entrypoint", "user")
LOOK = """
import getpass, json, os, sys
def found(name):
    try:
        return __import__(name).__file__
    except ImportError:
        return ""
def can_write(path):
    try:
        open(path, "w").close()
        return True
    except OSError:
        return False
print(json.dumps({
    "uid": os.getuid(), "cwd": os.getcwd(), "home": os.path.expanduser("~"), "name": getpass.getuser(),
    "entry": os.environ.get("FROM_ENTRY"), "userpkg": found("userpkg"), "mylib": found("mylib"),
    "writes": [path for path in ("/opt/ml/model/m", "/tmp/x", "/dev/shm/x", "/app/x") if can_write(path)],
}))
"""
READ = """
import json, os
import baked
code, model = sorted(os.listdir("/opt/ml/code")), os.listdir("/opt/ml/model")
size = os.path.getsize("/opt/ml/weights/large.bin")
text = open("/opt/ml/code/baked.py").read()
try:
    open("/opt/ml/weights/large.bin", "a").close()
    wrote = True
except OSError:
    wrote = False
program = os.environ["SAGEMAKER_PROGRAM"]
print(json.dumps({"code": code, "model": model, "size": size, "text": text, "wrote": wrote, "program": program}))
open("/opt/ml/code/baked.py", "w").write("changed")
os.remove("/opt/ml/weights/large.bin")
os.makedirs("/opt/ml/weights/mine")
"""


@pytest.fixture(scope="module")
def loaded(docker_daemon: Docker) -> Docker:
    settings_images.load(docker_daemon.client)
    return docker_daemon


@pytest_asyncio.fixture
async def harness(
    tmp_path: Path,
    docker: Docker,
    loaded: Docker,  # noqa: ARG001 - its images
) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


async def run(harness: DockerHarness, image: Image, source: str, *settings: str, **changes: Any) -> Any:
    asked = replace(harness.request(), image=image.id, image_settings=settings)
    async with AgentClient(harness.engine, await harness.acquire(asked)) as agent:
        return last_json(await agent.run_and_wait(source, **changes))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user")
async def test_user_entry_point_and_working_folder_of_the_image_count_where_they_are_asked_for(
    harness: DockerHarness,
) -> None:
    name = settings_images.ENTRY.name
    image = await harness.engine.resolve_image(name, lambda _step: None, settings=ALL)
    assert (image.user, image.workdir, image.entrypoint) == ("app", "/app", ("/entry.sh",))
    seen = await run(harness, image, LOOK, *ALL, image_workdir=True)
    assert (seen["uid"], seen["name"], seen["home"]) == (1000, "app", "/home/app")
    assert (seen["cwd"], seen["entry"]) == ("/app", "yes")
    assert seen["userpkg"].startswith("/home/app/.local/lib/python3.")
    assert seen["mylib"] == "/app/mylib.py"
    assert seen["writes"] == ["/opt/ml/model/m", "/tmp/x", "/dev/shm/x"], "the image itself stays as it is"  # noqa: S108


async def test_without_these_options_the_same_image_is_a_host_as_before(harness: DockerHarness) -> None:
    image = await harness.engine.resolve_image(settings_images.ENTRY.name, lambda _step: None)
    seen = await run(harness, image, LOOK)
    assert (seen["home"], seen["cwd"], seen["entry"], seen["userpkg"]) == ("/tmp", "/opt/ml/code", None, "")  # noqa: S108


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user")
async def test_hosts_of_one_image_with_different_users_have_files_of_their_own_users(
    harness: DockerHarness, tmp_path: Path
) -> None:
    owners = {}
    for image in (settings_images.USER_1000, settings_images.ROOT):
        found = await harness.engine.resolve_image(image.name, lambda _step: None, settings=("user",))
        handle = await harness.acquire(replace(harness.request(), image=found.id, image_settings=("user",)))
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("open('/opt/ml/model/m', 'w').write('1')")
            assert (await agent.wait_for_outcome(job)).record["exit_code"] == 0
            own = tmp_path / f"{image.tag}.txt"
            own.write_text("input")
            own.chmod(0o600)
            provided = await harness.engine.provide_files(handle, "algo-1", [str(own)])
            assert (await agent.run_and_wait(f"print(open({provided[str(own)]!r}).read())")).text == "input\n"
        spool = harness.engine.spool_path(handle.cluster, "algo-1")
        artifacts = [path for path in (spool / job).rglob("*") if path.is_file()]
        assert any(path.name == "model.tar.gz" for path in artifacts)
        owners[image.tag] = {path.stat().st_uid for path in artifacts}
        await harness.engine.release(handle)
        assert harness.leftovers(handle.cluster) == []
    assert owners == {"user-1000": {1000}, "root": {0}}


async def test_files_of_the_image_in_opt_ml_are_there_for_each_job_anew(harness: DockerHarness) -> None:
    image = await harness.engine.resolve_image(settings_images.BAKED.name, lambda _step: None)
    asked = replace(harness.request(), image=image.id)
    async with AgentClient(harness.engine, await harness.acquire(asked)) as agent:
        for lease in (1, 2):
            seen = last_json(await agent.run_and_wait(READ, lease=lease))
            assert {"baked.py", "train.py"} <= {*seen["code"]}
            assert seen["text"] == 'print("baked.py runs")\n'
            assert (seen["size"], seen["wrote"]) == ((1 << 20) + 1, False)
            assert seen["model"] == [], "SageMaker mounts the model's folder"
            assert seen["program"] == "train.py", "the script of this job"
    assert not [path for path in (harness.folder / "images").iterdir() if ".part-" in path.name]


async def test_the_program_of_an_image_runs_as_sagemaker_starts_it(harness: DockerHarness) -> None:
    image = await harness.engine.resolve_image(settings_images.BAKED.name, lambda _step: None)
    assert image.has_train
    asked = replace(harness.request(), image=image.id)
    async with AgentClient(harness.engine, await harness.acquire(asked)) as agent:
        changes = {"command": ["train"], "image_workdir": True, "hyperparameters": {"epochs": "3"}}
        outcome = await agent.run_and_wait("train\n", **changes)
    assert outcome.record["exit_code"] == 0, outcome.text
    lines = outcome.text.splitlines()
    assert lines[0] == "train of the image, in /opt/program"
    assert "'epochs': '3'" in lines[1]
    assert lines[2] == "['baked.py'] baked.py None"
    assert [one["name"] for one in outcome.record["artifacts"] if "model" in one["name"]]


async def test_a_python_that_is_closed_to_jobs_is_named_with_the_cure_and_runs_for_its_user(
    harness: DockerHarness,
) -> None:
    name = settings_images.CLOSED.name
    with pytest.raises(
        RefusedError, match=r"python3 of .* can be used by root, the image's user, and not by"
    ) as refused:
        await harness.engine.resolve_image(name, lambda _step: None)
    assert "/root is closed to other users" in str(refused.value)
    assert "RUN chmod o+x /root" in refused.value.cure
    assert ("--user image" in refused.value.cure) == (os.getuid() == 0)
    if os.getuid() == 0:
        image = await harness.engine.resolve_image(name, lambda _step: None, settings=("user",))
        assert (await run(harness, image, LOOK, "user"))["uid"] == 0


async def test_entry_points_that_end_or_never_end_are_refused_and_leave_nothing(
    harness: DockerHarness, docker: Docker
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - the same

    before = harness.run_docker("ps", "-aq")
    looks = Images(Daemon(docker.host, 15.0), {"jupyter-smx.test": "1"}, lambda: "1000:1000", 2.0)
    for image, said in ((settings_images.ENDS, "ended with exit code 0"), (settings_images.HANGS, "within 2 s")):
        with pytest.raises(RefusedError, match=said) as refused:
            await looks.inspect(image.name, lambda _step: None, ("entrypoint",))
        assert (refused.value.field, refused.value.transient) == ("entrypoint", False)
    assert harness.run_docker("ps", "-aq") == before
    assert looks.under_way == set()
