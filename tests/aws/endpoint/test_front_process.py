"""The front as a process: one for a data folder, with the same port and key at each start; commands and the magic."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from jupyter_smx import controller_launch
from jupyter_smx.aws.s3.storage.layout import temporary_folder
from jupyter_smx.aws_endpoint import environment, process, switch
from jupyter_smx.aws_endpoint.endpoint_file import HOST, ensure_endpoint, read_endpoint
from jupyter_smx.cli.main import main
from jupyter_smx.model.errors import UnavailableError, ValidationError
from jupyter_smx.server.aws_front import lead_clients_to_front
from jupyter_smx.testing.eventually import eventually_blocking

pytestmark = pytest.mark.processes

IDENTITY = "import botocore.session as b; print(b.Session().create_client('sts').get_caller_identity()['Account'])"


def identity(*scripts: str) -> subprocess.CompletedProcess[str]:
    code = "\n".join([*scripts, f'"{sys.executable}" -c "{IDENTITY}"'])
    return subprocess.run(["/bin/bash", "-c", code], capture_output=True, text=True, check=False, timeout=60)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jupyter_smx.cli", "aws", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def quiet(_: str) -> None:
    """Report nothing."""


@pytest.mark.usefixtures("data_folder")
def test_a_shell_that_evaluates_env_reaches_the_front_and_goes_back() -> None:
    env = f'eval "$({sys.executable} -m jupyter_smx.cli aws env)"'
    off = f'eval "$({sys.executable} -m jupyter_smx.cli aws env --off)"'
    there = identity(env)
    assert there.stdout == "000000000000\n", there.stderr
    assert there.stderr.count("AWS → local") == 1
    back = identity(env, off, "export AWS_MAX_ATTEMPTS=1 AWS_ENDPOINT_URL_STS=http://127.0.0.1:1", "env | grep ^AWS_")
    assert "AWS_ACCESS_KEY_ID" not in back.stdout
    assert "JUPYTER_SMX_AWS" not in back.stdout


def test_clients_keep_the_region_of_their_configuration(data_folder: Path) -> None:
    config = Path(os.environ["AWS_CONFIG_FILE"])
    config.write_text("[default]\nregion = eu-west-1\n", encoding="utf-8")
    found = json.loads(command("env", "--shell", "json").stdout)
    sdk_config = data_folder / "aws" / "sagemaker-eu-west-1-local.yaml"
    assert (found["AWS_DEFAULT_REGION"], found[environment.SDK_CONFIG]) == ("eu-west-1", str(sdk_config))
    done = json.loads(command("profile", "smx", "--json").stdout)
    assert (done["path"], done["sdk_config"]) == (str(config), str(sdk_config))
    assert f"export AWS_PROFILE=smx SAGEMAKER_ADMIN_CONFIG_OVERRIDE={sdk_config}\n" in done["message"]
    assert done["message"].endswith("`jupyter smx aws env` leads it here, too.")
    assert sdk_config.exists()
    assert "region = eu-west-1" in config.read_text(encoding="utf-8").partition("[profile smx]")[2]


def test_a_start_removes_the_unfinished_uploads_of_a_front_that_was_killed(data_folder: Path) -> None:
    left = Path(temporary_folder(data_folder / "s3", socket.gethostname())) / "upload"
    left.parent.mkdir(parents=True)
    left.touch()
    process.start_front(quiet)
    assert not left.exists()


def test_one_front_runs_and_a_second_start_finds_it(data_folder: Path) -> None:
    first, second = (process.start_front(quiet) for _ in range(2))
    assert first == second
    running = process.find_front()
    assert running is not None
    assert running.url == first.endpoint.url
    status = json.loads(command("status", "--json").stdout)
    assert (status["running"], status["buckets"], status["url"]) == (True, "local", first.endpoint.url)
    assert subprocess.run([sys.executable, "-m", "jupyter_smx.aws"], check=False, timeout=60).returncode == 0
    words = Path(f"/proc/{status['pid']}/cmdline").read_bytes()
    log = (data_folder / "aws.log").read_text()
    assert first.endpoint.secret_key not in log + words.decode() + json.dumps(status)
    with pytest.raises(ValidationError, match="runs with --s3 local"):
        process.start_front(quiet, "aws")
    with pytest.raises(ValidationError, match="runs with --images note"):
        process.start_front(quiet, images="match")
    assert command("stop").stdout == "The front ended; jobs go on.\n"
    assert process.find_front() is None
    assert "Traceback" not in (data_folder / "aws.log").read_text()


@pytest.mark.usefixtures("data_folder")
def test_a_front_that_was_killed_starts_again_with_the_same_port_and_key() -> None:
    first = process.start_front(quiet)
    running = process.find_front()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    eventually_blocking(lambda: process.find_front() is None)
    assert process.start_front(quiet) == first


def test_a_port_that_is_taken_is_named_and_no_other_one_is_used(data_folder: Path) -> None:
    data_folder.mkdir()
    endpoint = ensure_endpoint()
    with socket.socket() as other:
        other.bind((HOST, endpoint.port))
        other.listen()
        with pytest.raises(UnavailableError, match=f"Port {endpoint.port} of 127.0.0.1 is taken by another process"):
            process.start_front(quiet)
    assert process.start_front(quiet).endpoint == endpoint


def test_a_front_leaves_when_its_data_folder_is_deleted(data_folder: Path) -> None:
    first = process.start_front(quiet).endpoint
    shutil.rmtree(data_folder)
    eventually_blocking(lambda: is_refused(first.port), "no front listens at a key that no file has")
    second = process.start_front(quiet).endpoint
    assert second.secret_key != first.secret_key
    (data_folder / "aws.json").unlink()
    eventually_blocking(lambda: is_refused(second.port), "it also leaves without the file of its port and key")
    assert "port and key was deleted or replaced; the front leaves" in (data_folder / "aws.log").read_text()


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) != 0


def test_two_data_folders_have_two_fronts_with_keys_of_their_own(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process.start_front(quiet).endpoint
    with monkeypatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(data_folder.with_name("other")))
        try:
            second = process.start_front(quiet).endpoint
            assert first.port != second.port
            assert first.secret_key != second.secret_key
            assert identity(*exports(first, AWS_ENDPOINT_URL_STS=second.url)).returncode != 0
            assert identity(*exports(second)).stdout == "000000000000\n"
        finally:
            process.stop_front()
    assert identity(*exports(first)).stdout == "000000000000\n"


def exports(endpoint: Any, **more: str) -> list[str]:
    variables = environment.client_variables(endpoint, Path("/none"), {}) | more
    return [f"export {name}='{value}'" for name, value in variables.items() if value is not None]


@pytest.mark.usefixtures("data_folder")
def test_a_kernel_is_led_there_and_back_with_its_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.session import Session  # noqa: PLC0415

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own")
    before = dict(os.environ)
    reports: list[str] = []
    sentence = switch.turn_on(reports.append, None, switch.BACK_IN_A_NOTEBOOK)
    try:
        assert "AWS → local" in sentence
        assert "%smx aws off" in sentence
        assert Session().create_client("sts").get_caller_identity()["Account"] == "000000000000"
        endpoint = read_endpoint()
        assert endpoint is not None
        assert os.environ["AWS_ACCESS_KEY_ID"] == endpoint.access_key
        started = controller_launch.controller_environment(os.environ)
        assert started["AWS_ACCESS_KEY_ID"] == "AKIA", "the controller reads real buckets with the user's own key"
    finally:
        assert switch.turn_off(os.environ)
    assert dict(os.environ) == before
    assert not switch.turn_off(os.environ)


@pytest.mark.usefixtures("data_folder")
async def test_a_server_leads_its_kernels_to_the_front_where_that_is_enabled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = logging.getLogger("test")
    before = dict(os.environ)
    assert not await lead_clients_to_front(Config(), log)
    assert read_endpoint() is None
    url = await lead_clients_to_front(Config({"SmxAws": {"enabled": True}}), log)
    try:
        assert identity().stdout == "000000000000\n"
        assert "AWS → local" in caplog.text
        endpoint = read_endpoint()
        assert endpoint is not None
        assert url == endpoint.url
        assert endpoint.secret_key not in caplog.text
    finally:
        switch.turn_off(os.environ)
    process.stop_front()
    with socket.socket() as other:
        other.bind((HOST, endpoint.port))
        other.listen()
        assert not await lead_clients_to_front(Config({"SmxAws": {"enabled": True}}), log)
    assert "is taken by another process" in caplog.text
    assert dict(os.environ) == before


@pytest.mark.usefixtures("data_folder")
def test_a_kernel_that_inherits_the_variables_has_its_sdk_patched_before_a_magic_is_used() -> None:
    script = """
import sys
from jupyter_smx.kernel.magics import lazy_loading
lazy_loading.lead_sdk_to_front()
print([type(one).__module__ for one in sys.meta_path if "jupyter_smx" in type(one).__module__])
"""
    for value, found in (("", "[]"), ("AWS_REGION", "['jupyter_smx.aws_endpoint.sagemaker_patch']")):
        variables = os.environ | {controller_launch.AWS_VARIABLES: value}
        done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("on",), "works in a notebook only"),
        (("profile",), "a name is missing"),
        (("start", "name"), "a name was given"),
        (("fly",), "'fly'"),
        (("env", "--shell", "cmd"), "'cmd'"),
        (("env", "--images", "match"), "It is chosen when the front starts"),
        (("profile", "default"), "is not a name for this profile"),
    ],
)
def test_wrong_words_are_refused_before_anything_starts(
    data_folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    assert main(["aws", *words]) != 0
    assert text in capsys.readouterr().err
    assert not (data_folder / "aws.json").exists()
