"""Jobs without a way out: which engines take them, and what such hosts could not do is refused before they run."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.policy.admission import network_rules

WISH: dict[str, Any] = {"engine": "ships", "network_isolation": True}


def output(destination: str, mode: Any = "Continuous") -> Output:
    return Output(name="report", path="/opt/ml/processing/output/report", destination=destination, mode=mode)


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"channels": (Channel(name="a", source="/data/*.csv"),)},
        {"checkpoint": "/kept"},
        {"kind": "process", "outputs": (output("s3://bucket/x", "EndOfJob"), output("/here"))},
        {"hyperparameters": {"sagemaker_s3_output": "/here"}},
        {"image": "train:1", "requirements": ("--no-index", "--find-links /code/wheels", "numpy")},
    ],
)
def test_what_comes_and_goes_by_this_machine_needs_no_way_out(wish: dict[str, Any]) -> None:
    network_rules.check(a_spec(**WISH | wish), ["ships"])


@pytest.mark.parametrize(
    ("wish", "field", "said"),
    [
        ({"channels": (Channel(name="a", source="s3://b/k"),)}, "channels", "cannot read s3://b/k .--input a"),
        ({"channels": (Channel(name="a", source="simplecache::s3://b"),)}, "channels", "cannot read simplecache"),
        (
            {"channels": (Channel(name="a", source="/m", data_type="ManifestFile"),)},
            "channels",
            "read the objects that /m lists",
        ),
        ({"checkpoint": "s3://b/k"}, "checkpoint", "cannot write checkpoints to s3://b/k"),
        ({"kind": "process", "outputs": (output("s3://b/k"),)}, "outputs", "upload to s3://b/k while"),
        ({"hyperparameters": {"sagemaker_s3_output": "s3://b/k"}}, "hyperparameters", "upload to s3://b/k"),
        ({"image": "train:1", "requirements": ("numpy",)}, "requirements", "a package index to install numpy"),
    ],
)
def test_what_its_hosts_would_have_to_go_out_for_is_refused(wish: dict[str, Any], field: str, said: str) -> None:
    network_rules.check(a_spec(**WISH | wish | {"network_isolation": False}), [])
    with pytest.raises(ValidationError, match=said) as refused:
        network_rules.check(a_spec(**WISH | wish), ["ships"])
    assert refused.value.field == field
    assert refused.value.cure


def test_an_engine_that_cannot_names_those_that_can() -> None:
    with pytest.raises(ValidationError, match="the engine local cannot isolate its hosts") as refused:
        network_rules.check(a_spec(network_isolation=True), ["ships", "docker"])
    assert (refused.value.field, refused.value.value) == ("network_isolation", "local")
    assert refused.value.cure == "Use an engine that supports it: --engine docker or ships."
