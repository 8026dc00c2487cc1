"""A job that misses what its image's user, entry point or working folder may provide is told that they do not count."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec

from jupyter_smx.model.records.job import HostEnd, RemoteException
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.spec.mount import Mount
from jupyter_smx.policy.hosts.image_cures import image_settings_cure

IMAGE = Image(name="ml:1", id="sha256:1", user="app", workdir="/app", entrypoint=("/entry.sh", "--x"))


def an_end(kind: str, message: str) -> HostEnd:
    exception = RemoteException(type=kind, message=message, traceback="") if kind else None
    return HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception, failure=message)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ModuleNotFoundError", "No module named 'userpkg'"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'data.csv'"),
        ("ImportError", "libx.so.1: cannot open shared object file: No such file or directory"),
        ("OSError", "libx.so.1: cannot open shared object file"),
        ("PermissionError", "[Errno 13] Permission denied: '/app/data/x'"),
        ("", "/bin/sh: 1: mytool: not found"),
    ],
)
def test_what_is_missing_is_explained_by_the_settings_that_did_not_count(kind: str, message: str) -> None:
    said = image_settings_cure(a_spec(image="ml:1"), an_end(kind, message), IMAGE)
    assert said == (
        "The image has USER app, ENTRYPOINT /entry.sh --x and WORKDIR /app, which count for a job only if it says so. "
        "If it needs them, add --user image --entrypoint image --workdir image."
    )


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"image_user": "image"}, "--entrypoint image --workdir image"),
        ({"image_user": "image", "image_entrypoint": "image"}, "--workdir image"),
        ({"spelling": "keyword"}, 'user="image" entrypoint="image" workdir="image"'),
    ],
)
def test_only_settings_that_did_not_count_are_named_in_the_users_spelling(fields: dict[str, Any], options: str) -> None:
    end = an_end("ModuleNotFoundError", "No module named 'a'")
    said = image_settings_cure(a_spec(image="ml:1", **fields), end, IMAGE)
    assert said.endswith(f"add {options}.")


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"image_user": "image"}, " For caches in the home of the image's user, add --env HOME=/tmp."),
        (
            {"image_user": "image", "spelling": "keyword"},
            ' For caches in the home of the image\'s user, add env={"HOME": "/tmp"}.',
        ),
        ({"image_user": "image", "environment": {"HOME": "/x"}}, ""),
        ({}, ""),
    ],
)
def test_a_job_that_writes_into_its_image_is_told_where_it_may_write(fields: dict[str, Any], option: str) -> None:
    end = an_end("OSError", "[Errno 30] Read-only file system: '/home/app/.cache'")
    said = image_settings_cure(a_spec(image="ml:1", **fields), end, IMAGE)
    assert said == f"A job cannot change its image: it writes to /opt/ml, /tmp and /dev/shm.{option}"


@pytest.mark.parametrize(
    ("message", "is_image"),
    [
        ("[Errno 30] Read-only file system: '/data/x'", False),
        ("touch: cannot touch '/data/x': Read-only file system", False),
        ("/bin/sh: 1: cannot create /data: Read-only file system", False),
        ("[Errno 30] Read-only file system: '/opt/ml/input/data/train/x'", False),
        ("[Errno 30] Read-only file system: '/data2/x'", True),
        ("touch: cannot touch '/app/data/x': Read-only file system", True),
        ("/opt/ml/code/run.sh: line 3: /app/x: Read-only file system", True),
        ("cp: cannot create regular file: Read-only file system", True),
    ],
)
def test_a_mount_or_an_input_that_may_only_be_read_is_no_image(message: str, *, is_image: bool) -> None:
    spec = a_spec(mounts=(Mount(source="/d", target="/data"),), image_user="image")
    assert bool(image_settings_cure(spec, an_end("OSError", message), Image(name="a", id="1"))) == is_image
    assert bool(image_settings_cure(spec, an_end("", message), Image(name="a", id="1"))) == is_image


@pytest.mark.parametrize(
    ("end", "image"),
    [
        (an_end("ValueError", "no number"), IMAGE),
        (an_end("ModuleNotFoundError", "No module named 'a'"), Image(name="a", id="1", workdir="/")),
        (an_end("ModuleNotFoundError", "No module named 'a'"), None),
        (HostEnd(host="algo-1", cause="memory", failure="file not found"), IMAGE),
    ],
)
def test_other_failures_and_other_images_get_no_such_sentence(end: HostEnd, image: Image | None) -> None:
    assert image_settings_cure(a_spec(image="ml:1"), end, image) == ""
