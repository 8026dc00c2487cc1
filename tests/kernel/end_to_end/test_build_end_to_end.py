"""Cells whose image is built for them, and cells that name only an image: a real controller, engine and daemon."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError
from projects import run

from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker

ASK = "import os\nown = os.environ.get('OWN'), os.path.exists('/opt/own.txt')\n"


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docker"
    made.mkdir()
    (made / "own.txt").write_text("own")
    (made / "Dockerfile").write_text(f"FROM {images.PYTHON.name}\nCOPY own.txt /opt/\nENV OWN=one\n")
    return made


def is_removed(docker: Docker, image: str) -> bool:
    try:
        docker.client.images.remove(image, force=True)
    except APIError:  # a host still has it
        return False
    return True


def test_an_image_is_built_for_a_cell_and_its_hosts_stay_warm_until_it_changes(
    docker: Docker, notebook: Any, folder: Path
) -> None:
    space, made = notebook.user_ns, []
    line = "%%train --build docker -k 5m --as job --wait --receive own\n"
    for word, start in (("one", "cold"), ("one", "warm"), ("two", "cold")):
        (folder / "Dockerfile").write_text((folder / "Dockerfile").read_text().replace("OWN=one", f"OWN={word}"))
        run(notebook, line + ASK)
        record = space["job"].record
        assert (space["own"], record.why.start) == ((word, True), start)
        assert (record.spec.engine, record.image.name) == ("docker", f"build:{folder}")
        made.append((record.image.id, record.why.pool or record.cluster))
    for pool in {pool for _, pool in made}:
        run(notebook, f"%smx release {pool}")
    for image in {image for image, _ in made}:
        eventually_blocking(lambda image=image: is_removed(docker, image), "its hosts are gone")


@pytest.mark.usefixtures("docker")
def test_a_dockerfile_that_fails_fails_the_job_with_the_last_lines_of_its_log(notebook: Any, folder: Path) -> None:
    (folder / "Dockerfile").write_text(f"FROM {images.PYTHON.name}\nRUN echo no compiler && exit 1\n")
    with pytest.raises(JobFailed, match=r"step 2 of 2 \(RUN echo no compiler.*Its log ends with: no compiler"):
        run(notebook, "%%train --build docker --wait\npass")


@pytest.mark.usefixtures("docker")
def test_an_image_alone_runs_on_docker_and_a_mount_has_to_be_allowed(notebook: Any, folder: Path) -> None:
    run(notebook, f"%%train --image {images.PYTHON.name} --wait --as job --shm-size 80m --receive own\n{ASK}")
    assert notebook.user_ns["own"] == (None, False)
    assert notebook.user_ns["job"].record.spec.engine == "docker"
    with pytest.raises(RefusedError, match=r"is not allowed\. DockerEngine\.allowed_mounts allows no mounts"):
        run(notebook, f"%%train --image {images.PYTHON.name} --mount {os.fspath(folder)}:/data --wait\npass")
