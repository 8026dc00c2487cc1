"""Variables by which clients of AWS in a job find the front, and jobs that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.agent.host.aws_front import port_of
from jupyter_smx.agent.paths import AWS_FRONT
from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.sagemaker.requests.job_clients import lead_clients
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
from jupyter_smx.model.redaction import redact_variables
from jupyter_smx.model.results.reports import EngineInfo
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.scheduling.reuse import reuse_key

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.aws.sagemaker.requests.job_clients import FrontAccess

ENDPOINT = Endpoint(4711, "SMX00000000000000000", "s" * 40)
INHERITED = {"AWS_SESSION_TOKEN": "of another key", "HTTP_PROXY": "http://proxy"}


def settings(folder: Path) -> SageMakerSettings:
    return SageMakerSettings(data_folder=folder, s3_root=folder / "s3", endpoint=ENDPOINT)


def request(**environment: str) -> TranslatedRequest:
    return TranslatedRequest(kind="train", name="a", fields={}, code=Code(), groups=(), environment=environment)


def test_a_job_has_the_variables_that_its_notebook_has_and_its_own_ones_win(tmp_path: Path) -> None:
    own = {"AWS_ENDPOINT_URL_LOGS": "http://own", "AWS_EC2_METADATA_DISABLED": "false", "AWS_REGION": "eu-west-3"}
    found = lead_clients(request(**own), settings(tmp_path), "loopback", "eu-west-1", INHERITED)
    assert not found.notes
    variables = dict(found.environment)
    assert variables["AWS_ENDPOINT_URL_S3"] == variables["AWS_ENDPOINT_URL_SAGEMAKER"] == ENDPOINT.url
    assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]) == (
        ENDPOINT.access_key,
        ENDPOINT.secret_key,
    )
    assert variables["AWS_SESSION_TOKEN"] == ""
    assert (variables["AWS_DEFAULT_REGION"], variables["NO_PROXY"]) == ("eu-west-3", "127.0.0.1")
    assert controller_launch.leave_front(variables) == own
    assert ENDPOINT.secret_key not in str(redact_variables(variables))
    mine, other = (JobSpec(kind="train", source="", environment=each) for each in (variables, own))
    assert reuse_key(mine, "me") == reuse_key(other, "me")


def test_a_job_with_real_buckets_or_a_key_of_its_own_is_left_as_it_is(tmp_path: Path) -> None:
    for wish, where in (
        (request(), replace(settings(tmp_path), s3_root=None)),
        (request(AWS_ACCESS_KEY_ID="AKIA"), settings(tmp_path)),
        (request(AWS_PROFILE="work"), settings(tmp_path)),
    ):
        assert lead_clients(wish, where, "loopback", "eu-west-1", INHERITED) == wish


def test_a_job_in_a_container_has_the_same_variables_and_none_of_the_machines_files_and_proxies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path))
    found = lead_clients(request(), settings(tmp_path), "relay", "eu-west-1", INHERITED)
    assert not found.notes
    assert found.environment["AWS_ENDPOINT_URL_S3"] == ENDPOINT.url
    assert port_of(found.environment) == ENDPOINT.port
    config = found.environment["SAGEMAKER_ADMIN_CONFIG_OVERRIDE"]
    assert config == f"{AWS_FRONT}/sagemaker-eu-west-1-local.yaml"
    written = tmp_path / "aws-front" / "sagemaker-eu-west-1-local.yaml"
    assert written.stat().st_mode & 0o777 == 0o644
    assert ENDPOINT.secret_key not in written.read_text()
    assert "NO_PROXY" not in found.environment


def test_a_job_of_this_machine_reaches_the_front_also_by_a_controller_from_before_the_field(tmp_path: Path) -> None:
    access = msgspec.json.decode(b'{"name": "local"}', type=EngineInfo).aws_front
    found = lead_clients(request(), settings(tmp_path), access, "eu-west-1", INHERITED)
    assert found == lead_clients(request(), settings(tmp_path), "loopback", "eu-west-1", INHERITED)


async def test_the_answer_of_an_old_controller_is_read_again_and_that_of_a_new_one_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [EngineInfo(name="local"), EngineInfo(name="local", aws_front="loopback")]

    async def answer(*_: object) -> EngineInfo:
        return answers.pop(0)

    client = ControllerClient()
    monkeypatch.setattr(client, "request", answer)
    assert [(await client.engine_info("local")).aws_front for _ in range(3)] == ["", "loopback", "loopback"]
    client.close()


@pytest.mark.parametrize(
    ("access", "fields", "words"),
    [
        ("", {}, "reach AWS: hosts of the engine slurm"),
        ("none", {}, "reach AWS: hosts of the engine slurm"),
        ("isolated", {}, "its network is isolated"),
        ("relay", {"network_isolation": True}, "its network is isolated"),
    ],
)
def test_a_job_that_does_not_reach_the_front_has_a_note_with_the_reason_instead(
    tmp_path: Path, access: FrontAccess, fields: dict[str, bool], words: str
) -> None:
    where = replace(settings(tmp_path), engine="slurm")
    found = lead_clients(replace(request(), fields=fields), where, access, "eu-west-1", INHERITED)
    assert not found.environment
    (note,) = found.notes
    assert words in note
