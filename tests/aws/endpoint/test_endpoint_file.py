"""The file with port and key, the profile in AWS's file, the SDK's configuration, and the patch of the SDK."""

from __future__ import annotations

import configparser
import importlib
import json
import socket
import stat
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import yaml

from jupyter_smx.aws_endpoint import profile, sagemaker_patch
from jupyter_smx.aws_endpoint.endpoint_file import HOST, Endpoint, ensure_endpoint, free_port, read_endpoint
from jupyter_smx.aws_endpoint.sdk_config import write_sdk_config
from jupyter_smx.model.errors import UnavailableError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDPOINT = Endpoint(4711, "SMX00000000000000000", "s" * 40)


def test_port_and_key_are_drawn_once_and_only_the_user_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "aws.json"
    first = ensure_endpoint(path)
    assert ensure_endpoint(path, port=lambda: 1) == first == read_endpoint(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (len(first.access_key), first.access_key[:3], len(first.secret_key)) == (20, "SMX", 40)
    assert first.secret_key not in repr(first)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["aws.json"]


def test_processes_that_draw_at_the_same_time_agree(tmp_path: Path) -> None:
    found: list[Endpoint] = []
    barrier = threading.Barrier(8)

    def draw() -> None:
        barrier.wait()
        found.append(ensure_endpoint(tmp_path / "aws.json"))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({endpoint.secret_key for endpoint in found}) == 1


def test_a_port_is_below_those_of_connections_and_one_that_is_taken_is_drawn_again(tmp_path: Path) -> None:
    ephemeral = tmp_path / "range"
    ephemeral.write_text("25000\t60999\n")
    taken = free_port(ephemeral=ephemeral)
    assert 20_000 <= taken < 25_000
    numbers = iter((taken - 20_000, *range(5_000)))
    with socket.socket() as other:
        other.bind((HOST, taken))
        assert taken != free_port(lambda limit: next(numbers) % limit, ephemeral) < 25_000
    assert free_port(ephemeral=tmp_path / "of another system") < 32_768
    ephemeral.write_text("1024\t60999\n")
    assert free_port(ephemeral=ephemeral)


@pytest.mark.parametrize("text", ["", "{}", '{"port": 0, "access_key": "a", "secret_key": "b"}', "[1]"])
def test_a_broken_file_is_named_and_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "aws.json"
    path.write_text(text)
    with pytest.raises(UnavailableError, match="cannot be used"):
        ensure_endpoint(path)
    assert path.read_text() == text


def test_a_profile_leaves_the_rest_of_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / ".aws" / "config"
    own = (
        "# mine\n[default]\nregion = eu-west-1\n\n[profile work]\nservices = a\n[services a]\ns3 =\n  endpoint_url = x"
    )
    path.parent.mkdir()
    path.write_text(own)
    path.chmod(0o644)
    for port in (4711, 4712):
        endpoint = Endpoint(port, ENDPOINT.access_key, ENDPOINT.secret_key)
        profile.write_profile(path, "smx", profile.format_profile("smx", endpoint, "eu-west-1", "local"))
    text = path.read_text()
    assert text.startswith(f"{own}\n\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.count("[profile smx]") == text.count("[services smx]") == 1
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    assert parser["profile smx"]["services"] == "smx"
    assert "http://127.0.0.1:4712" in parser["services smx"]["cloudwatch_logs"]
    assert "4711" not in text


def test_botocore_reads_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.session import Session  # noqa: PLC0415

    path = tmp_path / "config"
    profile.write_profile(path, "smx", profile.format_profile("smx", ENDPOINT, "eu-west-1", "local"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    session = Session(profile="smx")
    assert session.get_credentials().access_key == ENDPOINT.access_key
    for service in ("sagemaker", "logs", "cloudwatch", "sts", "iam", "s3", "sagemaker-runtime", "sagemaker-metrics"):
        assert session.create_client(service).meta.endpoint_url == ENDPOINT.url, service
    assert session.create_client("ecr").meta.endpoint_url != ENDPOINT.url


def test_a_profile_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    for own in ("[profile smx]\nregion = a\n", "[services smx]\ns3 =\n  endpoint_url = x\n"):
        path.write_text(own)
        with pytest.raises(ValidationError, match="already"):
            profile.write_profile(path, "smx", profile.format_profile("smx", ENDPOINT, "a", "local"))
        assert path.read_text() == own
    for name in ("default", "a b", "", "a]"):
        with pytest.raises(ValidationError):
            profile.check_name(name)


def test_the_sdk_is_configured_without_telemetry_and_with_a_local_bucket(tmp_path: Path) -> None:
    found = yaml.safe_load(write_sdk_config("eu-west-1", "local", tmp_path).read_text())["SageMaker"]
    modules = found["PythonSDK"]["Modules"]
    assert modules["TelemetryOptOut"] is True
    assert modules["Session"]["DefaultS3Bucket"] == "sagemaker-eu-west-1-000000000000"
    assert found["TrainingJob"]["RoleArn"] == "arn:aws:iam::000000000000:role/Smx"
    hybrid = yaml.safe_load(write_sdk_config("../x", "aws", tmp_path).read_text())
    assert "Session" not in hybrid["SageMaker"]["PythonSDK"]["Modules"]
    assert {one.parent for one in tmp_path.rglob("*.yaml")} == {tmp_path}


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide packages with the modules and the function of the SDK's versions 2 and 3, and of SageMaker Core."""
    code = "def sts_regional_endpoint(region):\n    return f'https://sts.{region}.amazonaws.com'\n"
    for name in sagemaker_patch.MODULES:
        file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sagemaker_patch.remove_patch()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("sagemaker", "sagemaker_core")]:
        del sys.modules[name]


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize("name", sagemaker_patch.MODULES)
@pytest.mark.parametrize("is_imported_before", [True, False])
def test_the_sdk_asks_the_front_who_it_is(
    name: str, *, is_imported_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_imported_before:
        importlib.import_module(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", ENDPOINT.url)
    sagemaker_patch.install_patch()
    sagemaker_patch.install_patch()
    module = importlib.import_module(name)
    assert module.sts_regional_endpoint("eu-west-1") == ENDPOINT.url
    sagemaker_patch.remove_patch()
    assert module.sts_regional_endpoint("eu-west-1") == "https://sts.eu-west-1.amazonaws.com"
    assert not [one for one in sys.meta_path if type(one).__module__ == sagemaker_patch.__name__]


def test_the_file_has_no_more_than_port_and_key(tmp_path: Path) -> None:
    ensure_endpoint(tmp_path / "aws.json")
    assert sorted(json.loads((tmp_path / "aws.json").read_text())) == ["access_key", "port", "secret_key"]
