"""``--build``: an image from a folder with a Dockerfile, with its progress, and with its log where it fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from fake_registry import running
from msgspec.structs import replace

from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.images.build import ImageBuilder
from jupyter_smx.engines.docker.images.build_progress import BuildProgress
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from fake_registry import Daemon

    from jupyter_smx.engines.base import PullProgress
    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.harness import DockerHarness

FROM = f"FROM {images.PYTHON.name}\n"


@pytest_asyncio.fixture
async def harness(tmp_path: Path, docker: Docker) -> AsyncIterator[DockerHarness]:
    from jupyter_smx.testing.docker.harness import DockerHarness  # noqa: PLC0415 - imports Docker's library

    harness = DockerHarness(tmp_path / "smx", docker.host, images.PYTHON.name)
    yield harness
    await harness.close()


@pytest.fixture
def made(docker: Docker) -> Iterator[list[str]]:
    """Collect the ids of images to remove."""
    made: list[str] = []
    yield made
    for image in made:
        docker.client.images.remove(image, force=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "own.py").write_text("WORD = 'built'\n")
    (folder / "big.bin").write_bytes(b"0" * 3_000_000)
    (folder / ".dockerignore").write_text("# large files\n*.bin\n")
    (folder / "Dockerfile").write_text(f"{FROM}COPY . /srv\nENV OWN=1\n")
    return folder


def answer(daemon: Daemon, *lines: dict[str, Any] | bytes | None) -> Callable[[PullProgress], None]:
    """Return a callback for progress that lets a daemon answer as soon as it has the folder, as a real one does."""

    def say(step: PullProgress) -> None:
        if step.text.startswith("sending its folder"):
            daemon.say(*lines)

    return say


def update(progress: BuildProgress, *lines: dict[str, Any]) -> str:
    for line in lines:
        progress.update(line)
    return progress.format_progress()


def test_the_step_of_a_build_is_said_in_the_words_of_its_dockerfile() -> None:
    progress = BuildProgress()
    assert progress.format_progress() == "sending the folder to the daemon"
    assert update(progress, {"stream": "Step 1/3 : FROM debian\n"}) == "step 1 of 3 (FROM debian)"
    pulling = update(progress, {"status": "Pulling fs layer", "id": "a"}, {"status": "Pulling fs layer", "id": "b"})
    assert pulling == "step 1 of 3 (FROM debian), 0 of 2 layers"
    long = f"RUN {'x' * 80}"
    assert update(progress, {"stream": f"Step 2/3 : {long}\n"}) == f"step 2 of 3 ({long[:60]}…)"
    update(
        progress, {"stream": " ---> Running in 1234\n"}, {"stream": "\x1b[91mno such\r\x1b[0m\n"}, {"stream": "file\n"}
    )
    assert progress.log_tail() == "no such | file"
    update(progress, *({"stream": f"line {number}\n"} for number in range(9)))
    assert progress.log_tail() == "line 4 | line 5 | line 6 | line 7 | line 8"
    update(progress, {"stream": "Successfully built docopt\n"}, {"aux": {"ID": "sha256:1"}}, {"aux": []}, {})
    assert progress.image == "sha256:1"


def test_a_build_of_podman_has_steps_and_an_image_too() -> None:
    progress = BuildProgress()
    update(progress, {"stream": "STEP 1/2: FROM debian\n"}, {"stream": "STEP 2/2: RUN make\n"})
    assert progress.format_progress() == "step 2 of 2 (RUN make)"
    update(
        progress, *({"stream": f"{line}\n"} for line in ("no rule", "COMMIT", "--> 0123456789ab", "0123456789abcdef"))
    )
    assert progress.log_tail() == "no rule | 0123456789abcdef"
    update(progress, {"stream": "Successfully built docopt\n"}, {"stream": f"Successfully built {'a1' * 6}\n"})
    assert progress.image == "a1" * 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("write /var/lib/docker/x: no space left on device", "stores images on its disk.*docker system df"),
        ("pull access denied for gone, repository does not exist", "Check the name after FROM, or log in with docker"),
        ("the --mount option requires BuildKit", "Build it with docker build -t NAME .*, and use --image NAME"),
        ("The command returned a non-zero code: 2", "Correct the Dockerfile; docker build .* shows the whole log"),
        ("The command 'pip --unauthorized' returned a non-zero code: 1", "Correct the Dockerfile; docker build"),
    ],
)
async def test_what_a_daemon_says_of_a_failed_build_has_a_cure(
    tmp_path: Path, folder: Path, words: str, sentence: str
) -> None:
    async with running(tmp_path) as daemon:
        log = ("Step 1/2 : FROM a\n", "Step 2/2 : RUN b\n", "403 Forbidden, unknown flag\n", "said\n")
        say = answer(daemon, *({"stream": text} for text in log), {"error": words})
        with pytest.raises(RefusedError, match=f"(?s)at step 2 of 2 .RUN b.: {words}.*{sentence}") as refused:
            await ImageBuilder(f"unix://{daemon.path}", DaemonInfo(), 20.0).build(str(folder), say)
    assert refused.value.rule.endswith("Its log ends with: 403 Forbidden, unknown flag | said.")
    assert daemon.asked[0].startswith("POST /build?dockerfile=Dockerfile&rm=1&forcerm=1 HTTP/1.1")


@pytest.mark.parametrize(
    ("words", "is_named"),
    [("Get https://hub.test/v2/a/manifests/1: no basic auth credentials", True), ("unknown instruction: FORM", False)],
)
async def test_credentials_that_cannot_be_read_are_named_where_a_registry_refuses_the_image_after_from(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str, *, is_named: bool
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    async with running(tmp_path) as daemon:
        say = answer(daemon, {"stream": "Step 1/1 : FROM hub.test/a:1\n"}, {"error": words})
        with pytest.raises(RefusedError) as refused:
            await ImageBuilder(f"unix://{daemon.path}", DaemonInfo(), 20.0).build(str(folder), say)
    assert (f"{tmp_path}/config.json is not JSON" in refused.value.rule) == is_named


@pytest.mark.parametrize("lines", [(b"hang up",), ({"stream": "Step 1/1 : FROM a\n"}, b"hang up")])
async def test_a_daemon_that_hangs_up_during_a_build_is_away(tmp_path: Path, folder: Path, lines: Any) -> None:
    async with running(tmp_path) as daemon:
        say = answer(daemon, *lines)
        with pytest.raises(UnavailableError, match=r"aborted the build of an image .*the build of an image then"):
            await ImageBuilder(f"unix://{daemon.path}", DaemonInfo(), 20.0).build(str(folder), say)


async def test_an_answer_without_an_image_is_a_failure(tmp_path: Path, folder: Path) -> None:
    async with running(tmp_path) as daemon:
        say = answer(daemon, {"stream": "done\n"}, None)
        with pytest.raises(RefusedError, match="the daemon reported no image"):
            await ImageBuilder(f"unix://{daemon.path}", DaemonInfo(), 20.0).build(str(folder), say)


async def test_an_image_is_built_taken_by_its_id_and_makes_hosts(
    harness: DockerHarness, folder: Path, made: list[str]
) -> None:
    heard: list[PullProgress] = []
    found = await harness.engine.build_image(str(folder), heard.append)
    made.append(found.id)
    assert (found.name, found.id[:7]) == (f"build:{folder}", "sha256:")
    texts = [step.text for step in heard]
    assert texts[:2] == ["waiting for other builds", "packing its folder"]
    assert "step 2 of 3 (COPY . /srv)" in texts
    sent = [text for text in texts if text.startswith("sending its folder")]
    assert sent
    assert not any("MiB" in text for text in sent), "the large file stays here"
    assert not any(step.downloads for step in heard)

    handle = await harness.acquire(replace(harness.request(), image=found.id))
    see = "import os, sys\nsys.path.insert(0, '/srv/code')\nimport own\n"
    see += "print(own.WORD, os.environ['OWN'], os.listdir('/srv'))"
    async with AgentClient(harness.engine, handle) as agent:
        said = (await agent.run_and_wait(see)).text
    assert said.startswith("built 1 [")
    assert "big.bin" not in said
    await harness.engine.release(handle)
    again = await harness.engine.build_image(str(folder), heard.append)
    assert again.id == found.id, "nothing changed"


async def test_a_dockerfile_with_another_name_is_built_with_its_folder(
    harness: DockerHarness, folder: Path, made: list[str]
) -> None:
    (folder / "Dockerfile.gpu").write_text(f"{FROM}COPY code /code\nENV OWN=2\n")
    found = await harness.engine.build_image(str(folder / "Dockerfile.gpu"), lambda _step: None)
    made.append(found.id)
    assert "OWN=2" in harness.run_docker("inspect", "--format={{.Config.Env}}", found.id)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            "RUN echo first && echo second && exit 3\n",
            r"at step 2 of 2 \(RUN echo first.*returned a non-zero code: 3.* Its log ends with: first \| second\.",
        ),
        ("COPY gone /x\n", "at step 2 of 2 .*gone"),
        ("FORM x\n", "unknown instruction: FORM"),
        ("RUN --mount=type=cache,target=/x true\n", "does not have this feature.*docker build -t NAME .*--image NAME"),
    ],
)
async def test_a_build_that_fails_ends_with_its_log_and_leaves_nothing(
    harness: DockerHarness, folder: Path, lines: str, sentence: str
) -> None:
    (folder / "Dockerfile").write_text(FROM + lines)
    before = harness.run_docker("ps", "-aq")
    with pytest.raises(RefusedError, match=f"(?s)--build: the image of .* could not be built.*{sentence}") as refused:
        await harness.engine.build_image(str(folder), lambda _step: None)
    assert refused.value.cure
    assert harness.run_docker("ps", "-aq") == before


async def test_what_is_no_folder_with_a_dockerfile_is_refused(harness: DockerHarness, folder: Path) -> None:
    with pytest.raises(RefusedError, match="there is no folder /no/where"):
        await harness.engine.build_image("/no/where", lambda _step: None)
    with pytest.raises(RefusedError, match="code has no file Dockerfile"):
        await harness.engine.build_image(str(folder / "code"), lambda _step: None)
    harness.traits["allow_builds"] = False
    with pytest.raises(RefusedError, match=r"DockerEngine\.allow_builds is False"):
        await harness.new_engine().build_image(str(folder), lambda _step: None)


async def test_an_image_without_python_is_named_by_its_folder(
    harness: DockerHarness, folder: Path, made: list[str]
) -> None:
    (folder / "Dockerfile").write_text(f"FROM {images.NO_PYTHON.name}\nENV OWN=3\n")
    with pytest.raises(RefusedError, match=f"image: 'build:{folder}' has no Python"):
        await harness.engine.build_image(str(folder), lambda _step: None)
    made.append(harness.run_docker("images", "-q", "--no-trunc", "--filter", "dangling=true").split()[0])


async def test_a_build_that_is_given_up_ends_at_the_daemon(harness: DockerHarness, folder: Path) -> None:
    (folder / "Dockerfile").write_text(f"{FROM}RUN sleep 1000\n")
    heard: list[PullProgress] = []
    others = {*harness.run_docker("ps", "-aq").split()}
    task = asyncio.create_task(harness.engine.build_image(str(folder), heard.append))
    await eventually(lambda: any("RUN sleep" in step.text for step in heard), "it has begun", within=30)
    own = await eventually(lambda: {*harness.run_docker("ps", "-q").split()} - others, "its container runs", within=30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(
        lambda: own.isdisjoint(harness.run_docker("ps", "-aq").split()), "its container is gone", within=30
    )


async def test_a_daemon_that_is_away_is_named(harness: DockerHarness, folder: Path) -> None:
    await harness.engine.resolve_image(images.PYTHON.name, lambda _step: None)
    with harness.outage(), pytest.raises(UnavailableError, match="does not answer"):
        await harness.engine.build_image(str(folder), lambda _step: None)
