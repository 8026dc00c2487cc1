"""``--mount``, ``--shm-size``, ``--build``, an image that chooses the engine, and options of Docker's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.kernel.options.container_values import parse_mounts
from jupyter_smx.kernel.options.defaults import defaults_for_line
from jupyter_smx.kernel.options.line_parser import parse
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.kernel.request.request import SubmissionContext
from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.options.docker_options import docker_cure
from jupyter_smx.model.records.comparison import compare
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.reports import EngineNames
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.spec.mount import Mount

if TYPE_CHECKING:
    from scripted_controller import ScriptedController

HERE = Path("/lab")
PAGE = "The page Run jobs in containers"


def last_spec(controller: ScriptedController) -> JobSpec:
    return [*controller.jobs.values()][-1].spec


def spec_of(line: str, image_engine: str = "docker", folder: Path = HERE) -> JobSpec:
    here = SubmissionContext(python="/py", python_version="3.11", folder=folder, image_engine=lambda: image_engine)
    return request_from_options("train", parse("train", line), {}, folder).build_spec("pass", 0, here, 0.0)


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data:/data", Mount(source="/data", target="/data")),
        ("/data/a b:/mnt/x/:ro", Mount(source="/data/a b", target="/mnt/x")),
        ("data/sub:/data:rw", Mount(source="/lab/data/sub", target="/data", writable=True)),
        ("./data:/data", Mount(source="/lab/data", target="/data")),
        ("../data:/data", Mount(source="/data", target="/data")),
        (".:/code", Mount(source="/lab", target="/code")),
        ("cache:/cache:rw", Mount(source="cache", target="/cache", writable=True)),
        ("/a:/b/../c", Mount(source="/a", target="/c")),
    ],
)
def test_a_mount_names_a_path_or_a_volume_and_is_read_only(text: str, mount: Mount) -> None:
    assert parse_mounts([text], HERE) == (mount,)
    assert parse_mounts([mount.option_value()], HERE) == (mount,)


def test_a_function_gets_the_right_form_as_a_list() -> None:
    with pytest.raises(ValidationError) as refused:
        smx.train("pass", image="a:1", engine="docker", mounts=["/data"])
    assert refused.value.cure == "For example mounts=['/data:/data']."


def test_the_order_of_mounts_makes_no_other_hosts() -> None:
    assert spec_of("--mount /a:/x --mount b:/y").mounts == spec_of("--mount b:/y --mount /a:/x").mounts
    assert spec_of("").mounts == ()


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("/data", "--mount /data:/data"),
        ("/data:/data:w", "--mount /data:/data"),
        (":/data", "--mount /data:/data"),
        ("/a:b", "--mount /a:/b"),
        ("type=bind,source=/mnt/d,target=/d", "--mount /mnt/d:/d"),
        ("type=volume,src=cache,dst=/cache,readonly", "--mount cache:/cache"),
    ],
)
def test_another_form_is_refused_with_the_right_one(text: str, cure: str) -> None:
    with pytest.raises(ValidationError) as refused:
        spec_of(f"--mount {text}")
    assert refused.value.cure == f"For example {cure}."
    assert "SOURCE:TARGET" in refused.value.rule


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1073741824", 1 << 30),
        ("512m", 512 << 20),
        ("8g", 8 << 30),
        ("8GB", 8 << 30),
        ("1.5GiB", 3 << 29),
        ("64k", 65_536),
    ],
)
def test_a_size_has_docker_s_units(text: str, size: int) -> None:
    assert spec_of(f"--shm-size {text}").shm_size == size


@pytest.mark.parametrize("text", ["0", "much", "-1", "8x", "8gg", "1e9", "''", "9999t"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"--shm-size: .* is not a size.*For example --shm-size 8g"):
        spec_of(f"--shm-size={text}")


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("--image train:1", "docker"),
        ("--image train:1 -e local", "local"),
        ("--image train:1 -e ssh:far", "ssh:far"),
        ("", "local"),
    ],
)
def test_an_image_alone_takes_the_engine_that_uses_images(line: str, engine: str) -> None:
    assert spec_of(line).engine == engine


def test_an_image_takes_no_engine_where_none_or_several_use_images() -> None:
    assert spec_of("--image train:1", image_engine="").engine == "local"


def test_defaults_of_containers_are_left_out_where_there_are_none() -> None:
    defaults = {"image": "usual:1", "shm_size": "8g"}

    def chosen(**typed: str) -> dict[str, list[str]]:
        return defaults_for_line("train", defaults, {name: [value] for name, value in typed.items()})

    assert chosen() == chosen(engine="local") == {}
    assert chosen(engine="docker") == {"image": ["usual:1"], "shm_size": ["8g"]}
    assert chosen(build="src") == chosen(engine="docker", build="src") == {"shm_size": ["8g"]}
    assert chosen(image="a:1") == {"shm_size": ["8g"]}


def test_the_folder_of_a_build_is_absolute_and_takes_the_engine_that_uses_images(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile").touch()
    (tmp_path / "docker" / "other").touch()
    for name in ("docker", "docker/other"):
        spec = spec_of(f"--build {name}", folder=tmp_path)
        assert (spec.build, spec.engine) == (str(tmp_path / name), "docker")


def test_a_folder_without_a_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=f"--build: {tmp_path} has no file Dockerfile"):
        spec_of("--build .", folder=tmp_path)
    with pytest.raises(ValidationError, match=f"--build: there is no {tmp_path}/gone"):
        spec_of("--build gone", folder=tmp_path)


@pytest.mark.usefixtures("front_end")
def test_every_front_door_has_them(shell: Any, controller: ScriptedController) -> None:
    controller.engine_names[""] = EngineNames(engines=("local", "ships"))
    controller.image_engines.add("ships")
    assert shell.run_cell("%%train --image a:1 --mount /d:/d --shm-size 1g\npass").success
    typed = last_spec(controller)
    smx.process("pass", image="a:1", mounts=["/d:/d"], shm_size="1g")
    named = last_spec(controller)
    for spec in (typed, named):
        assert (spec.engine, spec.image, spec.shm_size) == ("ships", "a:1", 1 << 30)
        assert spec.mounts == (Mount(source="/d", target="/d"),)
    with pytest.raises(ValidationError, match="mounts='/d:/d' has the wrong type"):
        smx.train("pass", mounts="/d:/d")  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--gpus all", "-t ml.g5.xlarge"),
        ("-v /data:/data", "Use --mount SOURCE:TARGET"),
        ("-v/data:/data", "Use --mount SOURCE:TARGET"),
        ("--volume=/data:/data", "Use --mount SOURCE:TARGET"),
        ("--publish 80:80", "Hosts publish no ports"),
        ("--network host", "--network-isolation closes it"),
        ("--privileged", "no capabilities"),
        ("--dockerfile Dockerfile.gpu", "Use --build"),
        ("--add-host a:1", "host.docker.internal"),
        ("-m 4g", "-t ml.m5.xlarge"),
        ("--label a=b", "its containers have labels"),
        ("--build-arg A=1", "docker build -t NAME"),
        ("--read-only", "read-only but for /opt/ml"),
    ],
)
def test_an_option_of_docker_names_what_jobs_have_and_the_page(option: str, instead: str) -> None:
    with pytest.raises(ValidationError, match="is not an option") as refused:
        parse("train", option)
    assert instead in refused.value.cure
    assert PAGE in refused.value.cure


def test_a_keyword_of_docker_names_what_jobs_have_and_the_page() -> None:
    with pytest.raises(ValidationError, match="volumes is not an option") as refused:
        smx.train("pass", volumes={"/d": "/d"})  # type: ignore[call-arg]  # what is refused
    assert "Use mounts=['SOURCE:TARGET']" in refused.value.cure


def test_an_option_that_jobs_have_is_not_docker_s() -> None:
    assert docker_cure("--image") == docker_cure("--no-such-option") == ""


def test_two_jobs_differ_in_them() -> None:
    before, after = (
        Job(id="a" * 12, name="fit", spec=JobSpec(kind="train", source="pass", **fields), created_at=1e9)
        for fields in ({}, {"mounts": (Mount(source="/d", target="/d"),), "shm_size": 1 << 30, "build": "/src"})
    )
    assert {change.text() for change in compare(before, after).changes} >= {
        "option mounts (new: /d:/d)",
        "option size of /dev/shm (new: 1.0 GiB)",
        "option build (new: /src)",
    }


def test_an_export_says_what_sagemaker_has_none_of() -> None:
    mounts = (Mount(source="cache", target="/cache", writable=True),)
    spec = JobSpec(kind="train", source="pass", image="build:/src", build="/src", mounts=mounts, shm_size=1 << 30)
    notes = " ".join(api_limit_notes(spec))
    assert "It mounted `cache:/cache:rw`." in notes
    assert "It set the size of `/dev/shm`." in notes
    assert "Its image was built from `/src`." in notes
    assert "build:/src" not in notes
