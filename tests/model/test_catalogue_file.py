"""A catalogue that an administrator wrote: what is wrong with it is said with its line and its field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup, InstanceType, catalogue, look_up, read_catalogue

KNOWN = catalogue()
GOOD = '{"name": "ours.big", "vcpus": 64, "memory_gib": 512}'


def test_a_catalogue_is_what_its_rows_say() -> None:
    text = f'[{GOOD},\n {{"name": "b", "vcpus": 1, "memory_gib": 0.5, "gpus": 2, "price_per_hour": 3, "source": "us"}}]'
    big, small = read_catalogue(text, "types.json").values()
    assert big == InstanceType(name="ours.big", vcpus=64, memory_gib=512)
    assert (small.gpus, small.price_per_hour, small.source) == (2, 3, "us")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "not JSON"),
        (f"[\n{GOOD},\n{GOOD[:-1]}}},\n oops]", 4, "not JSON"),
        ("{}", 1, "a list, not an object"),
        ("[]", 1, "no instance type"),
        (f"[\n {GOOD},\n 3]", 3, "Expected `object`"),
        ('[{"name": "a",\n"memory_gib": 1}]', 1, "vcpus: Object missing required field"),
        ('[\n{"name": "a",\n"vcpus": 0,\n"memory_gib": 1}]', 3, "vcpus: Expected `int` >= 1"),
        ('[\n{"name": "a",\n"vcpus": 1,\n"memory_gib": -1}]', 4, "memory_gib: Expected `float` >= 0"),
        ('[{"name": "a",\n"vcpus": "4",\n"memory_gib": 1}]', 2, "vcpus: Expected `int`"),
        ('[{"name": "",\n"vcpus": 1,\n"memory_gib": 1}]', 1, "name: "),
        (f'[{GOOD},\n{{"name": "b", "vcpus": 1, "memory_gib": 1,\n "price": 3}}]', 3, "unknown field `price`"),
        (f"[{GOOD},\n{GOOD}]", 2, "'ours.big' is already used"),
        ('[{"name": "a", "vcpus": 1, "memory_gib": 1, "price_per_hour": NaN}]', 1, "NaN is not a JSON number"),
        ('[{"name": "a", "vcpus": 1, "memory_gib": 1,\n"price_per_hour": 1e999}]', 2, "price_per_hour: Expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_field(text: str, line: int, says: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        read_catalogue(text, "/etc/types.json")
    assert str(refusal.value).startswith(f"/etc/types.json, line {line}: ")
    assert says in str(refusal.value)
    assert "vcpus (1 or more)" in refusal.value.rule


@given(st.permutations(sorted(KNOWN)[:30]))
def test_rows_come_out_as_they_were_written_in_any_order(names: list[str]) -> None:
    rows = [KNOWN[name] for name in names]
    text = json.dumps([to_builtins(row) for row in rows], indent=1)
    assert list(read_catalogue(text, "types.json").values()) == rows


def test_the_catalogue_ships_with_the_package_and_names_near_types() -> None:
    assert KNOWN["local"].price_per_hour == 0
    assert all(kind.vcpus > 0 for kind in KNOWN.values())
    with pytest.raises(ValidationError) as refusal:
        look_up(InstanceGroup(instance_type="ml.m5.xlrage"), KNOWN)
    assert "ml.m5.xlarge" in refusal.value.cure


def test_the_catalogue_has_each_type_that_sagemakers_api_takes() -> None:
    loaders = pytest.importorskip("botocore.loaders")
    shapes = loaders.Loader().load_service_model("sagemaker", "service-2")["shapes"]
    named = {name for enum in ("TrainingInstanceType", "ProcessingInstanceType") for name in shapes[enum]["enum"]}
    assert named <= set(KNOWN), "run scripts/instance_types.py with newer tables"


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gib", "gpus"),
    [
        ("ml.m4.xlarge", 4, 16, 0),
        ("ml.c4.xlarge", 4, 7.5, 0),
        ("ml.t3.large", 2, 8, 0),
        ("ml.r5.2xlarge", 8, 64, 0),
        ("ml.p2.xlarge", 4, 61, 1),
        ("ml.p2.16xlarge", 64, 732, 16),
        ("ml.g6.12xlarge", 48, 192, 4),
        ("ml.p4d.24xlarge", 96, 1152, 8),
        ("ml.trn1.32xlarge", 128, 512, 0),
        ("ml.m7i-flex.large", 2, 8, 0),
    ],
)
def test_a_type_has_the_size_that_aws_publishes(name: str, vcpus: int, memory_gib: float, gpus: int) -> None:
    found = KNOWN[name]
    assert (found.vcpus, found.memory_gib, found.gpus) == (vcpus, memory_gib, gpus)


def test_a_figure_has_a_source_and_an_unknown_price_has_none() -> None:
    for kind in KNOWN.values():
        assert kind.hardware_source
        assert bool(kind.source) == (kind.price_per_hour is not None)


@pytest.mark.parametrize(
    ("group", "option"),
    [
        (InstanceGroup(instance_type="ml.m5.tiny"), "--instance-type"),
        (InstanceGroup(name="data", instance_type="ml.m5.tiny"), "--group data"),
    ],
)
def test_the_option_that_was_written_is_named(group: InstanceGroup, option: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        look_up(group, KNOWN)
    assert str(refusal.value).startswith(f"{option}: 'ml.m5.tiny' is not an instance type here. ")
