"""Names of instance types that a catalog lacks: the ones that a person may have meant, of like family and size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.spec.instance import catalogue
from jupyter_smx.model.spec.type_names import parse_type_name, suggest_types

KNOWN = tuple(catalogue())
FEW = ("local", "ml.t3.medium", "ml.m5.large", "ml.m5.xlarge", "ml.m5.24xlarge", "ml.p3.8xlarge", "ml.p5.48xlarge")
"""A catalog of an administrator."""


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("ml.m5.8xlarge", "Did you mean ml.m5.12xlarge or ml.m5.4xlarge or ml.m5.24xlarge?"),
        ("ml.m5.xlrage", "Did you mean ml.m5.xlarge or ml.m5.2xlarge or ml.m5.4xlarge?"),
        ("m5.xlarge", "Did you mean ml.m5.xlarge?"),
        ("ml.p2", "Did you mean ml.p2.xlarge or ml.p2.8xlarge or ml.p2.16xlarge?"),
        ("locl", "Did you mean local?"),
        ("local_gpu", "Use a type with a GPU, for example ml.g4dn.xlarge."),
        ("ml.x9.tiny", ""),
        ("nothing of the kind", ""),
        ("ml.", ""),
        ("", ""),
    ],
)
def test_a_name_that_sagemaker_lacks(name: str, cure: str) -> None:
    assert suggest_types(name, KNOWN) == cure


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("ml.t3.large", "Did you mean ml.t3.medium?"),
        ("ml.m4.xlarge", "Did you mean ml.m5.xlarge or ml.m5.large?"),
        ("ml.p2.xlarge", ""),
        ("ml.p2.8xlarge", "Did you mean ml.p3.8xlarge?"),
        ("ml.g4dn.4xlarge", "Did you mean ml.p3.8xlarge?"),
        ("ml.trn1.2xlarge", ""),
        ("local_gpu", "Use a type with a GPU, for example ml.p3.8xlarge."),
    ],
)
def test_a_type_that_an_administrator_left_out_is_replaced_by_a_like_one_only(name: str, cure: str) -> None:
    """A dear type of another size is no advice."""
    assert suggest_types(name, FEW) == cure


def test_names_of_other_catalogs_are_found_by_their_spelling() -> None:
    assert suggest_types("lab.smal", ["lab.small", "lab.gpu", *FEW]) == "Did you mean lab.small or lab.gpu?"
    assert suggest_types("local_gpu", ["lab.small"]) == ""


@given(st.sampled_from([name for name in KNOWN if name != "local"]))
def test_a_missing_type_is_never_replaced_by_one_of_a_quite_different_size(name: str) -> None:
    written = parse_type_name(name)
    assert written is not None
    cure = suggest_types(name, [other for other in KNOWN if other != name])
    suggested = cure.removeprefix("Did you mean ").removesuffix("?").split(" or ") if cure else []
    for other in suggested:
        parts = parse_type_name(other)
        assert parts is not None
        assert 0.25 <= parts.size / written.size <= 4


@given(st.text())
def test_any_text_has_an_answer(name: str) -> None:
    suggest_types(name, KNOWN)
