"""Errors cross process borders unchanged; a file of its own, as ``model/errors.py`` is."""

from __future__ import annotations

import pytest

from jupyter_smx.model import errors
from jupyter_smx.model.errors import ErrorBody, SmxError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SmxError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_out_of_the_wire_as_it_went_in(kind: type[SmxError]) -> None:
    sent = kind("It broke.", field="f", value=3, rule="R.", cure="C.", transient=True)
    found = errors.from_body(sent.body())
    assert type(found) is kind
    assert found.body() == sent.body()
    assert str(found) == "It broke. R. C."


def test_a_code_of_a_newer_version_is_still_an_error_of_ours() -> None:
    assert type(errors.from_body(ErrorBody(code="FromTheFuture", message="No."))) is SmxError


def test_every_status_is_one_of_http_and_every_code_is_used_once() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS)
    assert all(400 <= kind.status < 600 for kind in KINDS)
