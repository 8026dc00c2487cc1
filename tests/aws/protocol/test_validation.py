"""Members of a request are checked by their shapes, and errors are worded as AWS does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_smx.aws.protocol.models import SIGNING_NAMES, load_model
from jupyter_smx.aws.protocol.operations import read_members
from jupyter_smx.aws.protocol.targets import RequestTarget, find_target, is_for_s3
from jupyter_smx.aws.service import AwsError

ROLE = "arn:aws:iam::000000000000:role/Smx"


def request(**members: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "a-1",
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    } | members


def read(members: dict[str, Any], operation: str = "CreateTrainingJob", service: str = "sagemaker") -> dict[str, Any]:
    return read_members(RequestTarget(service, operation, "json-1.1", operation), json.dumps(members).encode())


def refusal(members: dict[str, Any], **how: str) -> AwsError:
    with pytest.raises(AwsError) as caught:
        read(members, **how)
    return caught.value


def test_a_request_without_faults_passes() -> None:
    assert read(request()) == request()


def test_a_name_with_an_underscore_is_refused_with_the_pattern() -> None:
    error = refusal(request(TrainingJobName="x_y"))
    assert (error.code, error.status) == ("ValidationException", 400)
    assert error.message == (
        "1 validation error detected: Value 'x_y' at 'trainingJobName' failed to satisfy constraint: Member must "
        "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
    )


def test_a_keep_alive_above_the_maximum_is_refused_with_the_maximum() -> None:
    config = request()["ResourceConfig"] | {"KeepAlivePeriodInSeconds": 99999}
    assert refusal(request(ResourceConfig=config)).message == (
        "1 validation error detected: Value '99999' at 'resourceConfig.keepAlivePeriodInSeconds' failed to satisfy "
        "constraint: Member must have value less than or equal to 21600"
    )


def test_an_instance_type_that_does_not_exist_is_refused() -> None:
    message = refusal(request(ResourceConfig=request()["ResourceConfig"] | {"InstanceType": "ml.nonsense"})).message
    assert "'ml.nonsense' at 'resourceConfig.instanceType'" in message
    assert "Member must satisfy enum value set: [ml.m4.xlarge, " in message


def test_all_faults_are_in_one_error() -> None:
    channels = [{"ChannelName": "a b", "DataSource": {"S3DataSource": {"S3DataType": "Folder", "S3Uri": "/data"}}}]
    message = refusal(
        request(TrainingJobName="", RoleArn=None, InputDataConfig=channels, HyperParameters={"a": "b" * 2501})
    )
    assert message.message.startswith("7 validation errors detected: ")
    for part in (
        "Value '' at 'trainingJobName' failed to satisfy constraint: Member must have length greater than or equal to",
        "Value null at 'roleArn' failed to satisfy constraint: Member must not be null",
        "Value 'a b' at 'inputDataConfig.1.member.channelName'",
        "Value 'Folder' at 'inputDataConfig.1.member.dataSource.s3DataSource.s3DataType'",
        "Map value must satisfy constraint: [Member must have length less than or equal to 2500]",
    ):
        assert part in message.message


def test_members_of_newer_clients_pass_as_they_are() -> None:
    members = request(Newer={"Depth": [1, None, {"a": True}]})
    members["ResourceConfig"]["NewerToo"] = "x"
    assert read(members) == members


def test_values_of_another_type_are_refused() -> None:
    for members in (
        request(TrainingJobName=5),
        request(HyperParameters=[]),
        request(Tags={}),
        request(ResourceConfig="x"),
    ):
        assert refusal(members).code == "SerializationException"


def test_a_body_that_is_no_json_object_is_refused() -> None:
    for body in (b"{", b"[]", b"\xff", b"[" * 100_000, b'"text"'):
        with pytest.raises(AwsError) as caught:
            read_members(RequestTarget("sagemaker", "CreateTrainingJob", "json-1.1", "x"), body)
        assert caught.value.code == "SerializationException"


def test_each_service_has_its_own_code() -> None:
    assert refusal({}, operation="GetLogEvents", service="logs").code == "InvalidParameterException"


@pytest.mark.parametrize("operation", ["CreateEndpoint", "CreatePipeline", "CreateModel", "NoSuchOperation"])
def test_what_is_not_here_says_how_to_go_back_to_aws(operation: str) -> None:
    # The service has no handler for the first three; the front refuses these with the same words.
    error = refusal({}, operation="NoSuchOperation")
    assert error.code == "ValidationException"
    assert "%smx aws off" in error.message
    assert 'eval "$(jupyter smx aws env --off)"' in error.message
    assert operation


def test_the_operation_is_found_by_target_form_path_or_scope() -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    granite = "GraniteServiceVersion20100801"
    found = [
        find_target("/", {"X-Amz-Target": "SageMaker.CreateTrainingJob"}, b"{}", "sagemaker"),
        find_target("/", {"X-Amz-Target": "Logs_20140328.GetLogEvents"}, b"{}", "logs"),
        find_target(
            "/",
            {"X-Amz-Target": f"{granite}.GetMetricData", "Content-Type": "application/x-amz-json-1.0"},
            b"",
            "",
        ),
        find_target("/", form, b"Action=GetCallerIdentity&Version=2011-06-15", "sts"),
        find_target("/BatchPutMetrics", {}, b"{}", "sagemaker"),
        find_target("/", {"X-Amz-Target": "Other.Thing"}, b"{}", "other"),
    ]
    assert [(one.service, one.operation, one.form) for one in found] == [
        ("sagemaker", "CreateTrainingJob", "json-1.1"),
        ("logs", "GetLogEvents", "json-1.1"),
        ("cloudwatch", "GetMetricData", "json-1.0"),
        ("sts", "GetCallerIdentity", "query"),
        ("sagemaker", "", "rest-json"),
        ("", "Thing", "json-1.1"),
    ]


def test_a_client_that_sends_cbor_reads_what_to_send() -> None:
    with pytest.raises(AwsError, match=r"Granite\.GetMetricData: this request is in CBOR.* JSON and forms"):
        find_target("/service/Granite/operation/GetMetricData", {"Smithy-Protocol": "rpc-v2-cbor"}, b"", "monitoring")


@pytest.mark.parametrize("service", sorted(SIGNING_NAMES))
def test_botocore_chooses_a_form_that_is_read_here(service: str) -> None:
    assert load_model(service).resolved_protocol in ("json", "query")


def test_requests_of_s3_are_found_by_their_head() -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert is_for_s3("GET", {}, "s3")
    assert is_for_s3("PUT", form, "s3")
    assert is_for_s3("GET", {}, "")
    assert not is_for_s3("POST", form, "sts")
    assert not is_for_s3("POST", {"X-Amz-Target": "SageMaker.Search"}, "s3")
    assert not is_for_s3("PUT", {}, "sagemaker")
