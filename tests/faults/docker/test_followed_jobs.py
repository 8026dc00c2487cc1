"""Jobs of a real controller that follow their image: its user, entry point, working folder, files and program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from containers import CONFIG, Containers
from world import surround

from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.docker import settings_images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.testing.docker.fixtures import Docker

pytestmark = pytest.mark.heavy("docker")

COMPLETED, FAILED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED
IMPORT = "import os, userpkg, mylib; print(os.getuid(), os.getcwd(), os.environ.get('FROM_ENTRY'))"
only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user")


@pytest.fixture
def containers(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    settings_images.load(docker.client)
    configured = f'{CONFIG}\nc.DockerEngine.image_settings = {{"*:user-1000": ["user"]}}\n'
    surround(monkeypatch, tmp_path, configured, tmp_path / "smx")
    world = Containers(tmp_path, docker)
    yield world
    world.close()


@only_root
def test_a_job_follows_its_image_and_the_next_one_finds_the_same_host(containers: Containers) -> None:
    follow = dict.fromkeys(("image_user", "image_entrypoint", "image_workdir"), "image")
    name, keep = settings_images.ENTRY.name, {"keep_alive": 60}
    jobs = []
    for _ in range(2):
        jobs.append(containers.submit(IMPORT, image=name, **follow, **keep))
        ended = jobs[-1].wait()
        assert (ended.state, ended.failure_reason) == (COMPLETED, "")
        assert "1000 /app yes" in jobs[-1].log()
    assert jobs[0].job().cluster == jobs[1].job().cluster
    other = containers.submit("", image=name, **keep)
    assert other.wait().state is COMPLETED
    assert other.job().cluster != jobs[0].job().cluster


@only_root
def test_the_configuration_follows_images_by_their_names(containers: Containers) -> None:
    code = "import os; print(os.getuid()); open('/opt/ml/model/m', 'w').close()"
    job = containers.submit(code, image=settings_images.USER_1000.name)
    ended = job.wait()
    assert ended.state is COMPLETED
    assert "1000" in job.log().split()
    assert [(one.name, Path(one.path).stat().st_uid) for one in ended.artifacts] == [("model.tar.gz", 0)]
    assert job.job().spec.image_user == "image"


def test_a_job_that_misses_what_only_the_images_user_has_says_so(containers: Containers) -> None:
    job = containers.submit("import userpkg", image=settings_images.ENTRY.name)
    ended = job.wait()
    assert ended.state is FAILED
    assert "No module named 'userpkg'" in ended.failure_reason
    assert "The image has USER app, ENTRYPOINT /entry.sh and WORKDIR /app, which count for a job only" in str(ended)


def test_the_program_of_an_image_is_a_job_without_a_script(containers: Containers) -> None:
    fields = {"image_program": True, "command": ("train",), "hyperparameters": {"epochs": "3"}}
    job = containers.submit("", image=settings_images.BAKED.name, **fields)
    ended = job.wait()
    assert (ended.state, ended.failure_reason) == (COMPLETED, "")
    assert "train of the image, in /opt/program" in job.log()
    assert "['baked.py'] baked.py None" in job.log()
    assert [path.name for path in (containers.data / "jobs" / ended.id).rglob("model.tar.gz")] == ["model.tar.gz"]


@pytest.mark.parametrize(
    ("image", "fields", "said"),
    [
        (settings_images.CLOSED, {}, "/root is closed to other users"),
        (settings_images.ENDS, {"image_entrypoint": "image"}, "ended with exit code 0 and did not start Python"),
        (settings_images.USER_1000, {"image_program": True, "command": ("train",)}, "has no program train"),
    ],
    ids=["closed", "ends", "no-train"],
)
def test_what_an_image_cannot_do_is_a_sentence_and_leaves_nothing(
    containers: Containers, image: settings_images.TestImage, fields: dict[str, object], said: str
) -> None:
    job = containers.submit("", image=image.name, **fields)
    ended = job.wait()
    assert ended.state is FAILED
    assert said in ended.failure_reason
    assert [*containers.data.glob("clusters/*")] == [], "of containers, the fixture says it"
