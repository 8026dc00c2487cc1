"""Botocore's own clients at the front: services, errors, retries, and the ends of requests."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from botocore import UNSIGNED
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

from jupyter_smx.aws.service import AwsError, Caller, Service
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSResponse

ROLE = "arn:aws:iam::000000000000:role/Smx"
JOB: dict[str, Any] = {
    "TrainingJobName": "a-1",
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678000, timezone.utc)


class Jobs:
    """A service that remembers names, as SageMaker does; a name is taken once."""

    def __init__(self) -> None:
        self.created: list[tuple[dict[str, Any], Caller]] = []

    def service(self) -> Service:
        return Service("sagemaker", {"CreateTrainingJob": self._create, "DescribeTrainingJob": self._describe})

    async def _create(self, members: dict[str, Any], caller: Caller) -> dict[str, Any]:
        name = members["TrainingJobName"]
        if any(job["TrainingJobName"] == name for job, _ in self.created):
            raise AwsError("ResourceInUse", f"{name} already exists")
        self.created.append((members, caller))
        return {"TrainingJobArn": f"arn:aws:sagemaker:{caller.region}:000000000000:training-job/{name}"}

    async def _describe(self, members: dict[str, Any], _: Caller) -> dict[str, Any]:
        for job, _caller in self.created:
            if job["TrainingJobName"] == members["TrainingJobName"]:
                return job | {"TrainingJobStatus": "InProgress", "CreationTime": MOMENT}
        raise AwsError("ValidationException", "Requested resource not found.")


def test_the_caller_is_a_role_of_the_local_account(start_front: Callable[..., Any]) -> None:
    found = start_front().client("sts").get_caller_identity()
    assert found["Account"] == "000000000000"
    assert found["Arn"] == "arn:aws:sts::000000000000:assumed-role/Smx/jupyter-smx"
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_every_role_exists_and_may_do_everything(start_front: Callable[..., Any]) -> None:
    client = start_front().client("iam")
    role = client.get_role(RoleName="AnyRole")["Role"]
    assert role["Arn"] == "arn:aws:iam::000000000000:role/AnyRole"
    assert role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert [one["RoleName"] for one in client.list_roles()["Roles"]] == ["Smx"]
    actions = ["sagemaker:CreateTrainingJob", "s3:PutObject"]
    results = client.simulate_principal_policy(PolicySourceArn=ROLE, ActionNames=actions)["EvaluationResults"]
    assert [(one["EvalActionName"], one["EvalDecision"]) for one in results] == [(name, "allowed") for name in actions]


def test_a_job_is_created_and_described_with_its_region(start_front: Callable[..., Any]) -> None:
    jobs = Jobs()
    client = start_front(jobs.service()).client("sagemaker")
    arn = client.create_training_job(**JOB)["TrainingJobArn"]
    assert arn == "arn:aws:sagemaker:eu-west-1:000000000000:training-job/a-1"
    found = client.describe_training_job(TrainingJobName="a-1")
    assert found["CreationTime"] == MOMENT
    assert found["ResourceConfig"] == JOB["ResourceConfig"]
    _, caller = jobs.created[0]
    assert caller.access_key.startswith("SMX")
    assert "Botocore" in caller.user_agent
    assert caller.invocation_id


def test_errors_have_the_classes_and_codes_that_clients_compare(start_front: Callable[..., Any]) -> None:
    client = start_front(Jobs().service()).client("sagemaker")
    client.create_training_job(**JOB)
    with pytest.raises(client.exceptions.ResourceInUse):
        client.create_training_job(**JOB)
    with pytest.raises(ClientError) as caught:
        client.describe_training_job(TrainingJobName="nope")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert caught.value.response["Error"]["Message"].startswith("Requested resource not found")
    with pytest.raises(ClientError, match="'x_y' at 'trainingJobName' failed to satisfy constraint"):
        client.create_training_job(**JOB | {"TrainingJobName": "x_y"})
    with pytest.raises(ClientError, match="less than or equal to 21600"):
        client.create_training_job(
            **JOB | {"ResourceConfig": JOB["ResourceConfig"] | {"KeepAlivePeriodInSeconds": 99999}}
        )


def test_what_is_not_here_is_a_validation_error_with_the_way_back(start_front: Callable[..., Any]) -> None:
    front = start_front(Jobs().service())
    calls = [
        (front.client("sagemaker").create_model, {"ModelName": "m", "ExecutionRoleArn": ROLE}),
        (front.client("sagemaker").list_pipelines, {}),
        (
            front.client("sagemaker-metrics").batch_put_metrics,
            {"TrialComponentName": "t", "MetricData": [{"MetricName": "m", "Timestamp": MOMENT, "Value": 1.0}]},
        ),
        (front.client("sagemaker-runtime").invoke_endpoint, {"EndpointName": "e", "Body": b""}),
        (front.client("iam").list_users, {}),
        (front.client("cloudwatch").list_metrics, {}),
    ]
    for call, members in calls:
        with pytest.raises(ClientError) as caught:
            call(**members)
        assert caught.value.response["Error"]["Code"] == "ValidationException", call
        assert "jupyter smx aws env --off" in caught.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    ("service", "call", "wrong", "missing"),
    [
        ("sagemaker", "list_training_jobs", "InvalidSignatureException", "MissingAuthenticationTokenException"),
        ("logs", "describe_log_groups", "InvalidSignatureException", "MissingAuthenticationTokenException"),
        ("cloudwatch", "list_metrics", "SignatureDoesNotMatch", "MissingAuthenticationToken"),
        ("sts", "get_caller_identity", "SignatureDoesNotMatch", "MissingAuthenticationToken"),
        ("iam", "list_roles", "SignatureDoesNotMatch", "MissingAuthenticationToken"),
    ],
)
def test_errors_of_signatures_have_the_codes_of_the_protocol(
    start_front: Callable[..., Any], service: str, call: str, wrong: str, missing: str
) -> None:
    """Clients of CloudWatch compare the codes of its former protocol."""
    front = start_front()
    for client, code in (
        (front.client(service, secret="x" * 40), wrong),
        (front.client(service, signature_version=UNSIGNED), missing),
    ):
        with pytest.raises(ClientError) as caught:
            getattr(client, call)()
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_a_retry_of_a_create_whose_answer_was_lost_gets_the_first_answer(start_front: Callable[..., Any]) -> None:
    jobs = Jobs()
    client = start_front(jobs.service()).client("sagemaker")
    lost: list[int] = []

    def lose_first_answer(request: Any, **_: Any) -> AWSResponse | None:
        if lost:
            return None
        answer = URLLib3Session().send(request)
        lost.append(answer.status_code)
        answer.status_code = 500
        return answer

    client.meta.events.register("before-send.sagemaker.CreateTrainingJob", lose_first_answer)
    assert client.create_training_job(**JOB)["TrainingJobArn"].endswith("training-job/a-1")
    assert lost == [200]
    assert len(jobs.created) == 1


def test_a_retry_while_the_first_attempt_still_runs_waits_for_it(start_front: Callable[..., Any]) -> None:
    goes_on, calls = threading.Event(), []

    async def create(_: dict[str, Any], __: Caller) -> dict[str, Any]:
        calls.append(1)
        await asyncio.to_thread(goes_on.wait)
        return {"TrainingJobArn": "arn"}

    front = start_front(Service("sagemaker", {"CreateTrainingJob": create}))
    client = front.client("sagemaker", read_timeout=0.3)

    def go_on(**_: Any) -> None:
        if len(attempts) == 2:
            goes_on.set()

    attempts: list[int] = []
    client.meta.events.register("before-send.sagemaker.*", lambda **_: attempts.append(1))
    client.meta.events.register("before-send.sagemaker.*", go_on)
    assert client.create_training_job(**JOB)["TrainingJobArn"] == "arn"
    assert len(calls) == 1


def test_a_call_that_failed_is_done_again_by_its_retry(start_front: Callable[..., Any]) -> None:
    calls: list[str] = []

    async def create(_: dict[str, Any], caller: Caller) -> dict[str, Any]:
        calls.append(caller.invocation_id)
        if len(calls) == 1:
            raise AwsError("ThrottlingException", "Rate exceeded")
        return {"TrainingJobArn": "arn"}

    client = start_front(Service("sagemaker", {"CreateTrainingJob": create})).client("sagemaker")
    assert client.create_training_job(**JOB)["TrainingJobArn"] == "arn"
    assert len(calls) == 2
    assert len(set(calls)) == 1


def test_a_held_answer_ends_when_its_client_goes_away(start_front: Callable[..., Any]) -> None:
    ended = threading.Event()

    async def describe(_: dict[str, Any], __: Caller) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise
        return {}

    front = start_front(Service("sagemaker", {"DescribeTrainingJob": describe}))
    client = front.client("sagemaker", read_timeout=0.2)
    client.meta.events.register("needs-retry.sagemaker.*", lambda **_: None)
    with pytest.raises(ReadTimeoutError):
        client.describe_training_job(TrainingJobName="a")
    assert ended.wait(10)


def test_an_error_of_the_program_is_logged_without_what_the_client_sent(
    start_front: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(members: dict[str, Any], _: Caller) -> dict[str, Any]:
        raise KeyError(members["Environment"]["API_KEY"])

    async def unavailable(_: dict[str, Any], __: Caller) -> dict[str, Any]:
        raise UnavailableError("The controller cannot be reached.", cure="Try again.")

    front = start_front(Service("sagemaker", {"CreateTrainingJob": fail, "DescribeTrainingJob": unavailable}))
    client = front.client("sagemaker")
    with pytest.raises(ClientError) as caught:
        client.create_training_job(**JOB | {"Environment": {"API_KEY": "hunter2"}})
    assert caught.value.response["Error"]["Code"] == "InternalFailure"
    assert "hunter2" not in caplog.text + str(caught.value)
    assert "KeyError" in caplog.text
    assert "in fail" in caplog.text
    with pytest.raises(ClientError, match="The controller cannot be reached") as caught:
        client.describe_training_job(TrainingJobName="a")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
