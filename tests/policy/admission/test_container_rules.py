"""Mounts, the size of /dev/shm and builds: which engines take them, and at which paths nothing can be mounted."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.mount import Mount
from jupyter_smx.policy.admission import container_rules, image_rules

ABLE = {"mounts": True, "shm_size": True, "builds": True}
UNABLE = dict.fromkeys(ABLE, False)


def mount(target: str, source: str = "/data") -> dict[str, Any]:
    return {"mounts": (Mount(source=source, target=target),)}


@pytest.mark.parametrize(
    "wish",
    [
        *({}, mount("/data"), mount("/opt/data"), mount("/mnt/a b"), mount("/cache", "pip-cache")),
        *({"shm_size": 1 << 30}, {"build": "/src"}, {"build": "/src", "image": "build:/src"}),
    ],
)
def test_an_engine_with_containers_takes_it(wish: dict[str, Any]) -> None:
    container_rules.check(a_spec(**wish), **ABLE)


@pytest.mark.parametrize(
    ("wish", "option"),
    [(mount("/data"), "--mount"), ({"shm_size": 1}, "--shm-size"), ({"build": "/src"}, "--build")],
)
def test_an_engine_without_containers_is_named(wish: dict[str, Any], option: str) -> None:
    with pytest.raises(ValidationError) as refused:
        container_rules.check(a_spec(**wish), **UNABLE)
    assert refused.value.message == f"{option}: the engine local does not have this option."
    assert refused.value.cure == f"Remove {option}, or use --engine docker."


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (mount("/"), "nothing can be mounted at /[.].*Hosts have a /opt/ml of their own"),
        (mount("/opt"), "nothing can be mounted at /opt[.]"),
        (mount("/opt/ml/input/data/train"), "nothing can be mounted at /opt/ml/input/data/train"),
        (mount("/tmp/cache"), "Hosts have a /tmp of their own"),  # noqa: S108 - on a host
        (mount("/run/smx"), "Hosts have a /run of their own"),
        (mount("/dev/shm"), "Hosts have a /dev of their own"),  # noqa: S108 - on a host
        (mount("/data", "a/b"), "'a/b' is neither an absolute path nor the name of a volume"),
        (mount("/data", "-v"), "'-v' is neither"),
        ({"mounts": (Mount(source="/a", target="/x"), Mount(source="/b", target="/x"))}, "two mounts have .* /x"),
        ({"build": "/src", "image": "train:1"}, "--build cannot be combined with --image"),
        ({"build": "/src", "image": "build:/other"}, "--build cannot be combined with --image"),
    ],
)
def test_what_cannot_be_is_refused_with_a_cure(wish: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){sentence}") as refused:
        container_rules.check(a_spec(**wish), **ABLE)
    assert refused.value.cure


def test_an_image_that_is_built_takes_the_place_of_the_usual_one() -> None:
    spec = image_rules.apply_default_image(a_spec(engine="ships", build="/src/a b"), "usual:1")
    assert spec.image == "build:/src/a b"
    container_rules.check(spec, **ABLE)
    image_rules.check(spec, images=True)
