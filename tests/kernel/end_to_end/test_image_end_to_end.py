"""Cells on hosts that are made of an image: a real kernel's side, controller, engine and daemon, cold and warm."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from projects import run

from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.failures.exceptions import JobFailed
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.testing.docker.fixtures import Docker
    from jupyter_smx.testing.docker.registry import Registry

IMAGE, OTHER, PIP = images.PYTHON.name, images.OTHER.name, images.PIP.name
READ = """\
import os, helper
def read(channel):
    top = os.environ["SM_CHANNEL_" + channel]
    found = [os.path.join(t, n) for t, _, names in os.walk(top, followlinks=True) for n in names]
    return {os.path.relpath(path, top): open(path).read() for path in found}
seen = {channel: read(channel) for channel in ("ALL", "SOME", "ONE", "FAST")}
image, word, total = os.environ["TEST_IMAGE"], helper.WORD, sum(cfg["a"])
try:
    open(os.environ["SM_CHANNEL_FAST"] + "/a.csv", "w")
    wrote = True
except OSError:
    wrote = False
open("/opt/ml/model/weights.txt", "w").write(word)
"""


def line(image: str, keep_alive: str, name: str) -> str:
    return (
        f"%%train --engine docker --image {image} -k {keep_alive} --as {name} --wait --source-dir src "
        "--input all=data --input 'some=data/*.csv' --input one=data/b.csv --input fast=data,mode=FastFile "
        "--send cfg --receive seen,image,word,total,wrote -o model=models\n"
    )


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


@pytest.fixture
def project(notebook: Any, tmp_path: Path) -> Path:
    del notebook  # it works in the same folder
    for name, text in {
        "data/a.csv": "a",
        "data/b.csv": "b",
        "data/c/d.txt": "d",
        "src/helper.py": "WORD = 'one'",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_cell_has_its_variables_code_and_inputs_in_a_container_and_the_next_one_starts_warm(
    docker: Docker, notebook: Any, project: Path
) -> None:
    space = notebook.user_ns
    space["cfg"] = {"a": [1, 2]}
    run(notebook, line(IMAGE, "5m", "first") + READ)
    everything = {"a.csv": "a", "b.csv": "b", "c/d.txt": "d"}
    some = {"a.csv": "a", "b.csv": "b"}
    assert space["seen"] == {"ALL": everything, "SOME": some, "ONE": {"b.csv": "b"}, "FAST": everything}
    assert (space["image"], space["word"], space["total"]) == ("latest", "one", 3)
    assert space["wrote"] is False
    first = space["first"].record
    assert first.image.id == docker.client.images.get(IMAGE).id
    assert "model.tar.gz" in space["first"].artifacts
    assert (project / "models" / "model.tar.gz").exists()

    (project / "data/a.csv").write_text("changed")
    (project / "src/helper.py").write_text("WORD = 'two'")
    space["cfg"] = {"a": [5]}
    run(notebook, line(IMAGE, "5m", "second") + READ)
    assert space["second"].record.why.start == "warm"
    assert space["second"].record.cluster == first.cluster
    assert (space["seen"]["SOME"], space["word"], space["total"]) == ({"a.csv": "changed", "b.csv": "b"}, "two", 5)

    client = autostart.client()
    command = client.shell(space["second"].id)
    client.close()
    typed = [word for word in command if word != "--tty"]
    done = subprocess.run(typed, input="pwd; ls", capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split()[:1] == ["/opt/ml"]
    assert {"input", "model", "output"} <= {*done.stdout.split()}

    closed = line(OTHER, "0", "third").replace("%%train", "%%train --network-isolation")
    run(notebook, closed + READ + "image += str(os.listdir('/sys/class/net'))")
    why = space["third"].record.why
    assert why.start == "cold"
    found = {one.field: (one.wanted, one.found) for one in why.differences}
    assert found == {"image": (OTHER, IMAGE), "network isolation": ("on", "off")}
    assert space["image"] == "other['lo']", "what it needs comes all the same"
    assert space["seen"]["SOME"] == {"a.csv": "changed", "b.csv": "b"}
    run(notebook, "%smx release " + space["second"].record.why.pool)


@pytest.mark.usefixtures("docker")
@pytest.mark.skipif(find_spec("pip") is None, reason="the image is made of this environment's pip, and it has none")
def test_requirements_beside_the_script_are_installed_for_each_job_alone(notebook: Any, project: Path) -> None:
    for version in ("1.0", "2.0"):
        write_wheel(project / "src" / "wheels", "alpha", version)
    see = "import importlib.util\nfound = importlib.util.find_spec('alpha') and __import__('alpha').version\n"
    wish = f"%%train --engine docker --image {PIP} -k 5m --as job --wait --source-dir src --receive found"
    for version in ("1.0", "2.0"):
        text = f"--no-index\n--find-links wheels\nalpha=={version}\n"
        (project / "src" / "requirements.txt").write_text(text)
        run(notebook, f"{wish}\n{see}")
        assert notebook.user_ns["found"] == version
    assert notebook.user_ns["job"].record.why.start == "warm"
    run(notebook, f"{wish} --requirements none\n{see}")
    assert notebook.user_ns["found"] is None, "nothing is left of the jobs before"
    run(notebook, "%smx release " + notebook.user_ns["job"].record.why.pool)
    with pytest.raises(JobFailed, match=r"InstallRequirementsError: .* has no pip"):
        run(notebook, f"{wish.replace(PIP, IMAGE).replace('-k 5m', '-k 0')}\n{see}")


@pytest.mark.usefixtures("docker")
def test_an_image_that_is_not_there_or_has_no_python_ends_the_job_with_the_cure(notebook: Any) -> None:
    for image, words in (("no-such-image:1", "no-such-image:1"), (images.NO_PYTHON.name, "has no Python")):
        with pytest.raises(JobFailed, match=f"ClientError: .*{words}"):
            run(notebook, f"%%train --engine docker --image {image} --wait\npass")


@pytest.mark.usefixtures("docker")
def test_hosts_whose_python_cannot_start_jobs_end_the_job_with_the_words_of_their_log(
    docker: Docker, notebook: Any, tmp_path: Path
) -> None:
    """The agent runs, and jobs do not: a module of the image has the name of one that they need."""
    (tmp_path / "signal.py").write_text("raise ImportError('this is not the module signal')")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY signal.py /app/\nENV PYTHONPATH=/app\n")
    made, _ = docker.client.images.build(path=str(tmp_path), tag="smx-signal:latest", rm=True, forcerm=True)
    try:
        with pytest.raises(JobFailed) as caught:
            run(notebook, "%%train --engine docker --image smx-signal --as lost --wait\npass")
        told = "its container ended with exit code 1. Its log ends with: "
        assert told in str(caught.value)
        assert "this is not the module signal" in str(caught.value)
        assert any(told in note for note in notebook.user_ns["lost"].record.why.notes)
    finally:
        docker.client.images.remove(made.id, force=True)


def test_what_no_image_can_have_is_refused_before_there_is_a_job(notebook: Any) -> None:
    for option, words in (
        ("", "--image: no image was given"),
        (f"--image {IMAGE} --checkpoint here", "--checkpoint: hosts of the engine docker do not share this folder"),
        (f"--image {IMAGE} --python {sys.executable}", "is an interpreter of this machine"),
    ):
        with pytest.raises(ValidationError, match=words):
            run(notebook, f"%%train --engine docker {option}\npass")


def test_an_image_of_a_registry_is_downloaded_while_the_job_says_so_and_why_says_how_long_that_took(
    registry: Registry, notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMX_WAIT", "0")
    there = registry.publish("team/cell:1", 3_000_000)
    image, space = f"{registry.host}/team/cell:1", notebook.user_ns
    with registry.proxy.stall_after(1_500_000):
        for name in ("one", "two"):
            run(notebook, f"%%train --engine docker --image {image} --as {name}\nprint('ran')")
        eventually_blocking(
            lambda: space["one"].record.transitions[-1].status_message.endswith(" of 2.9 MiB."), within=60
        )
        record = space["one"].record
        assert record.state.value == "Downloading"
        assert record.transitions[-1].status_message.startswith(
            f"Downloading the image {image}: 2 of 3 layers (2 were here), "
        )
        assert record.why.sentence == record.transitions[-1].status_message
    for name in ("one", "two"):
        record = space[name].wait().record
        assert [row.status.value for row in record.transitions][:4] == ["Pending", "Downloading", "Pending", "Starting"]
        assert record.image.id == there
        assert record.image.digest.startswith(f"{registry.host}/team/cell@sha256:")
        assert record.image.digest in record.provenance.image
        notes = [note for note in record.why.notes if f"use the image {image} (" in note]
        assert ["which was downloaded in" in note for note in notes] == [True]
