"""The types of the browser fit what is sent; a file of its own, as ``server/schema.py`` is."""

from __future__ import annotations

import msgspec
import pytest
from fake_controller import job, pool
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from jupyter_smx.model.records.event import Changes, Event
from jupyter_smx.server.schema import schema


def validator(name: str) -> Draft202012Validator:
    whole = schema()
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]})


def test_what_the_controller_sends_fits_the_schema() -> None:
    changes = Changes(events=(Event(seq=1, at=0.5, job=job()), Event(seq=2, at=1.0, pool=pool())), seq=2)
    validator("Changes").validate(msgspec.json.decode(msgspec.json.encode(changes)))


@pytest.mark.parametrize("field", ["name", "queue_position", "cost"])
def test_every_field_is_promised_even_one_with_a_default(field: str) -> None:
    sent = msgspec.to_builtins(job())
    del sent[field]
    with pytest.raises(ValidationError, match=field):
        validator("JobSummary").validate(sent)
