"""Where inputs, outputs and code of a job may lie."""

from __future__ import annotations

from typing import Any

import pytest
from draws import a_spec

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.job_spec import SourceDir
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.limits import Limits

IN = "/opt/ml/processing/input"


def channel(name: str, path: str = "", **fields: Any) -> Channel:
    return Channel(name=name, source="/data", path=path, **fields)


def check(*channels: Channel, **changes: Any) -> None:
    wish = {"kind": "process", "channels": channels, "entry_point": "clean.py", **changes}
    checks.check(a_spec(**wish), Limits(), ("local",))


@pytest.mark.parametrize(
    "channels",
    [
        (channel("raw", IN),),
        (channel("raw", IN + "/"),),
        (channel("raw", "/opt/ml/processing/model"), channel("test", "/opt/ml/processing/test")),
        (channel("all", IN), channel("more", f"{IN}/deep/more")),
        (channel("all", IN), channel("usual")),
        (channel("raw", "/opt/ml/processing/a", mode="FastFile"), channel("b", "/opt/ml/processing/ab")),
    ],
)
def test_an_input_of_a_processing_job_lies_anywhere_below_its_folder(channels: tuple[Channel, ...]) -> None:
    check(*channels)


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ((channel("raw", "processing/input"),), "absolute and below /opt/ml/processing"),
        ((channel("raw", "/opt/ml/processing"),), "absolute and below /opt/ml/processing"),
        ((channel("raw", "/opt/ml/processing/../model"),), "absolute and below /opt/ml/processing"),
        ((channel("raw", "/opt/ml/processings/x"),), "absolute and below /opt/ml/processing"),
        ((channel("raw", "/data"),), "absolute and below /opt/ml/processing"),
        ((channel("raw", f"{IN}/x"), channel("x")), "Channel 'raw' has this path"),
        ((channel("raw", f"{IN}/code"),), "'raw' uses /opt/ml/processing/input/code, the folder of"),
        ((channel("raw", IN, mode="FastFile"),), f"overlaps with {IN}/code"),
        ((channel("a", IN), channel("b", mode="FastFile")), f"overlaps with {IN}"),
        ((channel("a\0", IN),), "is not a valid channel name"),
        ((channel("a", f"{IN}/\0"),), "NUL"),
    ],
)
def test_a_folder_that_no_input_can_have_is_refused(channels: tuple[Channel, ...], words: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        check(*channels)
    assert words in str(refusal.value)
    assert refusal.value.field == "channels"


def test_how_a_folder_of_code_is_started_has_its_folder_for_itself() -> None:
    code = SourceDir(path="/x.tar.gz", sha256="", folder="/here", files=1, size=1)
    with pytest.raises(ValidationError, match="'entrypoint' uses /opt/ml/processing/input/entrypoint"):
        check(channel("entrypoint"), source_dir=code)
    check(channel("entrypoint"))
    check(channel("entrypoint"), source_dir=code, distribution=Distribution(runner="pyspark"))


def test_a_training_job_has_its_channels_where_sagemaker_has_them() -> None:
    with pytest.raises(ValidationError, match=r"it cannot be at '/opt/ml/processing/x'.*is at /opt/ml/input/data/raw"):
        check(channel("raw", "/opt/ml/processing/x"), kind="train")


@pytest.mark.parametrize("path", ["/opt/ml/processing/model", "/opt/ml/processing/model/out", "/opt/ml/processing"])
def test_an_output_is_neither_in_an_input_nor_around_one(path: str) -> None:
    model = channel("model", "/opt/ml/processing/model")
    with pytest.raises(ValidationError, match="cannot be a folder of outputs"):
        check(model, outputs=(Output(name="out", path=path),))
    check(model, outputs=(Output(name="out", path="/opt/ml/processing/models"),))


@pytest.mark.parametrize("field", ["command", "arguments"])
def test_a_nul_in_a_word_of_a_command_is_refused_as_such(field: str) -> None:
    with pytest.raises(ValidationError, match="there is a NUL character in it") as refusal:
        check(**{field: ("echo", "a\0b")})
    assert refusal.value.field == field
