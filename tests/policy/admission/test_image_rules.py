"""Which wishes may name an image, and what an image takes the place of; a sentence for each that may not."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec
from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.policy.admission import image_rules

CODE = SourceDir(folder="/code", path="/kept/code.tar.gz", sha256="", files=1, size=1)
BESIDE = SourceDir(
    folder="/code", path="/kept/c.tar.gz", sha256="", files=1, size=1, is_whole=False, dependencies=("w", "a.whl")
)
WITH = {"engine": "ships", "image": "train:1", "python": ""}


@pytest.mark.parametrize("image", ["train:1", "127.0.0.1:5000/a/b@sha256:" + "0" * 64, "a" * 255, "größe"])
def test_an_engine_that_has_images_takes_any_name_of_one(image: str) -> None:
    image_rules.check(a_spec(**WITH | {"image": image}), images=True)


@pytest.mark.parametrize(
    "line",
    [
        *("numpy", "numpy>=1; python_version > '3'", "--index-url https://host/simple", "-e git+https://host/a/b"),
        *("-c a<2", "/code/wheels/a.whl # content /x", "-e /code # content 1", "a @ file:///code/a.whl"),
        *("--find-links /code/w", "-f '/code/a b'", 'numpy; sys_platform == "linux"'),
    ],
)
def test_an_engine_that_has_images_takes_requirements_and_files_that_come_with_the_code(line: str) -> None:
    image_rules.check(a_spec(**WITH, requirements=(line,), source_dir=CODE), images=True)


@pytest.mark.parametrize("line", ["/code/a.whl # content 1", "--find-links /code/w", "-e /code/w/part # content 1"])
def test_an_engine_that_has_images_takes_files_of_dependencies(line: str) -> None:
    image_rules.check(a_spec(**WITH, requirements=(line,), source_dir=BESIDE), images=True)


def test_an_engine_without_images_takes_a_job_without_one() -> None:
    image_rules.check(a_spec(requirements=("numpy",), python_named=True), images=False)


@pytest.mark.parametrize(
    ("wish", "has_images", "field", "sentence"),
    [
        ({"engine": "local", "image": "a"}, False, "image", "the engine local does not use images"),
        (WITH | {"image": ""}, True, "image", "no image was given, and the engine ships needs one"),
        (WITH | {"image": "a b"}, True, "image", "'a b' is not a valid image name"),
        (WITH | {"image": "a\nb"}, True, "image", "is not a valid image name"),
        (WITH | {"image": "a\0b"}, True, "image", "is not a valid image name"),
        (WITH | {"image": "--privileged"}, True, "image", "'--privileged' is not a valid image name"),
        (WITH | {"image": "a" * 256}, True, "image", "is not a valid image name"),
        (
            WITH | {"requirements": ("/home/me/a.whl",)},
            True,
            "requirements",
            "cannot read /home/me/a.whl.*--source-dir",
        ),
        (WITH | {"requirements": ("a @ file:///x/a.whl",)}, True, "requirements", "cannot read /x/a.whl"),
        (WITH | {"requirements": ("-e /x/a[b] # content 1",)}, True, "requirements", "cannot read /x/a[.]"),
        (WITH | {"requirements": ("--find-links=/x",), "source_dir": CODE}, True, "requirements", "cannot read /x[.]"),
        (WITH | {"requirements": ('-f "/data/wheels"',)}, True, "requirements", "cannot read /data/wheels[.]"),
        (WITH | {"requirements": ("'/a b/c.whl'",)}, True, "requirements", "cannot read /a b/c.whl[.]"),
        (WITH | {"requirements": ("--find-links='file:///a b/'",)}, True, "requirements", "cannot read /a b/[.]"),
        (WITH | {"requirements": ("/code/../x",), "source_dir": CODE}, True, "requirements", "cannot read /code/../x"),
        (
            WITH | {"requirements": ("/code/b.whl",), "source_dir": BESIDE},
            True,
            "requirements",
            "cannot read /code/b.whl",
        ),
        (
            WITH | {"requirements": ("-e /code",), "source_dir": BESIDE},
            True,
            "requirements",
            "read /code[.].*--dependency",
        ),
        (WITH | {"requirements": ("-e /code/w2",), "source_dir": BESIDE}, True, "requirements", "cannot read /code/w2"),
        (
            WITH | {"requirements": ("/code/a.whl",), "source_dir": replace(BESIDE, folder="")},
            True,
            "requirements",
            "cannot read /code/a.whl",
        ),
        (WITH | {"python": "/py", "python_named": True}, True, "python", "/py is an interpreter of this machine"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_and_a_cure(
    wish: dict[str, Any], has_images: bool, field: str, sentence: str
) -> None:
    with pytest.raises(ValidationError, match=f"(?s){sentence}") as refused:
        image_rules.check(a_spec(**wish), images=has_images)
    assert refused.value.field == field
    assert refused.value.cure


def an_image(**fields: Any) -> Image:
    return Image(name="train:1", id="sha256:11", **fields)


def test_settings_of_the_configuration_count_unless_the_job_says_something_else() -> None:
    spec = image_rules.apply_image_settings(a_spec(image="train:1", image_workdir="default"), ["user", "workdir"])
    assert (spec.image_user, spec.image_entrypoint, spec.image_workdir) == ("image", "", "default")
    assert spec.image_settings() == ("user",)
    assert image_rules.apply_image_settings(spec, ["user", "workdir"]) == spec


@pytest.mark.parametrize("option", ["user", "entrypoint", "workdir"])
def test_settings_of_images_are_refused_where_no_container_follows_them(option: str) -> None:
    spec = a_spec(image="train:1", **{f"image_{option}": "image"})
    image_rules.check(spec, images=True)
    for able in ({"images": True, "settings": False}, {"images": False, "settings": False}):
        with pytest.raises(ValidationError, match=f"--{option}: the engine") as refused:
            image_rules.check(spec, **able)
        assert (refused.value.field, "--engine docker" in refused.value.cure) == (option, True)


@pytest.mark.parametrize(
    ("kind", "fields", "program"),
    [
        ("train", {}, ("train",)),
        ("train", {"entrypoint": ("/entry.sh",)}, ("/entry.sh", "train")),
        ("process", {"entrypoint": ("python3", "p.py"), "cmd": ("--all",)}, ("python3", "p.py", "--all")),
        ("process", {"cmd": ("run",)}, ("run",)),
    ],
)
def test_a_job_without_a_script_runs_the_program_that_sagemaker_starts(
    kind: str, fields: dict[str, Any], program: tuple[str, ...]
) -> None:
    spec = a_spec(kind=kind, image="train:1", image_program=True, command=("train",) if kind == "train" else ())
    image_rules.check_program(spec, an_image(**fields))
    assert image_rules.program_of(spec, an_image(**fields)) == program


def test_arguments_replace_the_cmd_and_an_entry_point_that_started_the_host_does_not_run_twice() -> None:
    image = an_image(entrypoint=("/entry.sh",), cmd=("all",))
    process = a_spec(kind="process", image="train:1", image_program=True, arguments=("--one",))
    assert image_rules.program_of(process, image) == ("/entry.sh", "--one")
    train = a_spec(image="train:1", image_program=True, command=("train",), image_entrypoint="image")
    assert image_rules.program_of(train, image) == ("train",)
    assert image_rules.program_of(a_spec(command=("make",)), image) == ("make",)


@pytest.mark.parametrize(("kind", "what"), [("train", "program train on its PATH"), ("process", "no CMD")])
def test_an_image_without_a_program_is_refused_for_a_job_without_a_script(kind: str, what: str) -> None:
    spec = a_spec(kind=kind, image="train:1", image_program=True)
    with pytest.raises(ValidationError, match=what) as refused:
        image_rules.check_program(spec, an_image(has_train=False))
    assert (refused.value.field, "Pass a script" in refused.value.cure) == ("image", True)
    image_rules.check_program(a_spec(kind=kind, image="train:1"), an_image(has_train=False))
