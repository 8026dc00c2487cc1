"""Members written by botocore's serializers and parsers, and by ours: each side reads what the other one writes."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.model import ShapeResolver
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.aws.protocol import models
from jupyter_smx.aws.protocol.json_form import format_json
from jupyter_smx.aws.protocol.operations import read_members, write_answer
from jupyter_smx.aws.protocol.targets import RequestTarget
from jupyter_smx.aws.service import AwsError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"), max_size=12
)
TIMES = st.integers(0, 4_000_000_000_000).map(lambda milliseconds: EPOCH + timedelta(milliseconds=milliseconds))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)

OPERATIONS = [
    ("sagemaker", "DescribeTrainingJob", "json-1.1"),
    ("sagemaker", "ListTrainingJobs", "json-1.1"),
    ("sagemaker", "DescribeProcessingJob", "json-1.1"),
    ("logs", "GetLogEvents", "json-1.1"),
    ("cloudwatch", "GetMetricStatistics", "json-1.0"),
    ("cloudwatch", "GetMetricData", "query"),
    ("sts", "GetCallerIdentity", "query"),
    ("iam", "GetRole", "query"),
    ("iam", "SimulatePrincipalPolicy", "query"),
]
PARSERS = {"json-1.0": "json", "json-1.1": "json", "query": "query"}


def members_of(shape: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    kind = shape.type_name
    if kind == "structure":
        return structures(shape, depth)
    if kind == "list":
        return st.lists(members_of(shape.member, depth + 1), min_size=1, max_size=2)
    if kind == "map":
        keys = st.sampled_from(shape.key.enum) if shape.key.enum else TEXT.filter(bool)
        return st.dictionaries(keys, members_of(shape.value, depth + 1), min_size=1, max_size=2)
    if kind == "string" and shape.enum:
        return st.sampled_from(shape.enum)
    return {
        "string": TEXT,
        "integer": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": NUMBERS,
        "double": NUMBERS,
        "boolean": st.booleans(),
        "timestamp": TIMES,
        "blob": st.binary(max_size=8),
    }[kind]


def structures(shape: Any, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    if depth > 4:
        return st.just({})
    parts = {name: members_of(member, depth + 1) for name, member in shape.members.items()}
    names = st.sets(st.sampled_from(sorted(parts)), max_size=4) if parts else st.just(set())
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: parts[name] for name in sorted(chosen)}))


def pruned(value: Any) -> Any:
    """Drop structures and lists without content, which a form cannot express."""
    if isinstance(value, dict):
        return {key: item for key, old in value.items() if (item := pruned(old)) not in ({}, [])}
    if isinstance(value, list):
        return [item for old in value if (item := pruned(old)) != {}]
    return value


@pytest.mark.parametrize(("service", "name", "form"), OPERATIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_parser_of_a_client_reads_every_answer(service: str, name: str, form: Any, data: st.DataObject) -> None:
    operation = models.find_operation(service, name)
    assert operation is not None
    members = data.draw(members_of(operation.output_shape))
    answer = write_answer(RequestTarget(service, name, form, name), members, "id-1")
    parser = create_parser(PARSERS[form])
    headers = {key.lower(): value for key, value in answer.headers.items()}
    found = parser.parse({"body": answer.body, "headers": headers, "status_code": 200}, operation.output_shape)
    assert found.pop("ResponseMetadata")["RequestId"] == "id-1"
    assert pruned(found) == pruned(members)


REQUESTS = [
    ("cloudwatch", "GetMetricStatistics", "json-1.0"),
    ("cloudwatch", "GetMetricData", "query"),
    ("cloudwatch", "PutMetricData", "json-1.0"),
    ("iam", "SimulatePrincipalPolicy", "query"),
    ("logs", "FilterLogEvents", "json-1.1"),
    ("sagemaker", "CreateTrainingJob", "json-1.1"),
]


@pytest.mark.parametrize(("service", "name", "form"), REQUESTS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_request_of_a_client_is_read(service: str, name: str, form: Any, data: st.DataObject) -> None:
    operation = models.find_operation(service, name)
    assert operation is not None
    members = data.draw(members_of(operation.input_shape))
    with pytest.MonkeyPatch.context() as patch:
        # What is drawn is of the right types, and otherwise arbitrary.
        patch.setattr("jupyter_smx.aws.protocol.operations.check_members", lambda *_: None)
        sent = create_serializer(PARSERS[form], include_validation=False).serialize_to_request(members, operation)
        body = urlencode(sent["body"]).encode() if form == "query" else sent["body"]
        found = read_members(RequestTarget(service, name, form, name), body)
    assert pruned(found) == pruned(members) or without_fractions(found) == without_fractions(members)


def without_fractions(value: Any) -> Any:
    """Round times to seconds, as botocore's JSON requests do."""
    if isinstance(value, dict):
        return {key: item for key, old in value.items() if (item := without_fractions(old)) not in ({}, [])}
    if isinstance(value, list):
        return [item for old in value if (item := without_fractions(old)) != {}]
    return value.replace(microsecond=0) if isinstance(value, datetime) else value


@pytest.mark.parametrize("form", ["json-1.1", "query"])
@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=200))
def test_no_body_is_read_without_members_or_an_error_of_aws(form: Any, body: bytes) -> None:
    with suppress(AwsError):
        assert isinstance(read_members(RequestTarget("cloudwatch", "GetMetricStatistics", form, "x"), body), dict)


def test_numbers_that_are_not_finite_reach_the_client() -> None:
    operation = models.find_operation("cloudwatch", "GetMetricStatistics")
    assert operation is not None
    members = {"Datapoints": [{"Average": math.inf}, {"Average": -math.inf}, {"Average": math.nan}]}
    answer = write_answer(RequestTarget("cloudwatch", "GetMetricStatistics", "json-1.0", "x"), members, "id")
    response = {"body": answer.body, "headers": {}, "status_code": 200}
    found = create_parser("json").parse(response, operation.output_shape)
    # The parser leaves these words of JSON as they are.
    values = [float(point["Average"]) for point in found["Datapoints"]]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])


def test_a_document_has_words_for_what_json_lacks() -> None:
    members = {"a": math.nan, "b": [math.inf, -math.inf], "c": {"d": b"bytes", "e": None, "f": True}, "g": EPOCH}
    found = json.loads(format_json(None, members))
    assert found == {"a": "NaN", "b": ["Infinity", "-Infinity"], "c": {"d": "Ynl0ZXM=", "f": True}, "g": 0}


def test_times_and_numbers_have_the_form_of_their_shapes() -> None:
    shapes = {
        "Answer": {"type": "structure", "members": {name: {"shape": name} for name in ("Iso", "Epoch", "Rate", "Map")}},
        "Iso": {"type": "timestamp", "timestampFormat": "iso8601"},
        "Epoch": {"type": "timestamp"},
        "Rate": {"type": "double"},
        "Map": {"type": "map", "key": {"shape": "Name"}, "value": {"shape": "Iso"}},
        "Name": {"type": "string"},
    }
    shape = ShapeResolver(shapes).get_shape_by_name("Answer")
    found = json.loads(format_json(shape, {"Iso": EPOCH, "Epoch": EPOCH, "Rate": 2, "Map": {"first": EPOCH}}))
    assert found == {"Iso": "1970-01-01T00:00:00Z", "Epoch": 0, "Rate": 2.0, "Map": {"first": "1970-01-01T00:00:00Z"}}
    assert isinstance(found["Rate"], float)
