"""The region of AWS's own configuration: what botocore has is what the variables of the front keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.session import Session

from jupyter_smx.aws_endpoint.aws_config import config_path, configured_region

CONFIG = """
[default]
region = eu-west-1
[profile work]
region = ap-south-1
s3 =
  addressing_style = path
[profile "my own"]
region=eu-south-2
[profile plain]
output = json
[profile keys]
region = eu-west-2
[work]
region = none
[services work]
region = none
"""
KEYS = "[keys]\nregion = eu-north-1\n[only]\nregion = me-south-1\n[profile work]\nregion = none\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Provide the variables that name the two files of AWS."""
    (tmp_path / "config").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "keys").write_text(KEYS, encoding="utf-8")
    return {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"),
    }


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({}, "eu-west-1"),
        ({"AWS_PROFILE": "work"}, "ap-south-1"),
        ({"AWS_PROFILE": "my own"}, "eu-south-2"),
        ({"AWS_PROFILE": "keys"}, "eu-north-1"),
        ({"AWS_PROFILE": "only"}, "me-south-1"),
        ({"AWS_PROFILE": "plain", "AWS_DEFAULT_PROFILE": "work"}, "ap-south-1"),
        ({"AWS_PROFILE": "work", "AWS_DEFAULT_REGION": "ca-west-1"}, "ca-west-1"),
        ({"AWS_PROFILE": "work", "AWS_REGION": "ca-west-1"}, "ap-south-1"),
    ],
)
def test_the_region_is_that_of_botocore(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], region: str
) -> None:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**files, **variables}.items():
        monkeypatch.setenv(name, value)
    assert Session().get_config_variable("region") == region
    assert configured_region({**files, **variables}) == region


@pytest.mark.parametrize("form", ["$AWS_FILES/{}", "${{AWS_FILES}}/{}", "~/{}"])
def test_paths_have_the_variables_that_a_client_would_have(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    variables = {
        "AWS_FILES": str(tmp_path),
        "AWS_CONFIG_FILE": form.format("config"),
        "AWS_SHARED_CREDENTIALS_FILE": form.format("keys"),
    }
    monkeypatch.setenv("HOME", str(tmp_path))
    regions = [configured_region(variables | {"AWS_PROFILE": name}) for name in ("work", "keys")]
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.delenv("AWS_DEFAULT_REGION", raising=False)
        expected = [Session(profile=name).get_config_variable("region") for name in ("work", "keys")]
    assert config_path(variables).samefile(files["AWS_CONFIG_FILE"])
    assert regions == expected == ["ap-south-1", "eu-north-1"]


def test_an_unknown_variable_stays_in_a_path() -> None:
    assert config_path({"AWS_CONFIG_FILE": "$NONE/${A}/config", "A": "a"}) == Path("$NONE/a/config")


def test_without_a_region_of_botocore_it_is_that_of_another_program_or_ours(files: dict[str, str]) -> None:
    plain = {**files, "AWS_PROFILE": "plain"}
    assert configured_region({**plain, "AWS_REGION": "ca-west-1"}) == "ca-west-1"
    assert configured_region(plain) == "us-east-1"


@pytest.mark.parametrize(
    "content", [b"region = x", b"[default]\nregion = x\n[default]\n", b"\xff\xfe[", b'[profile "]\n']
)
def test_a_broken_file_has_no_region(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config").write_bytes(content)
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path)}
    assert configured_region(files) == "us-east-1"
