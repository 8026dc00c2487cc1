"""What a failed pull of an image means, and the user's login at its registry."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_registry import LAYERS, NAME, Ear, pulls_of, running, told

from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.model.errors import RefusedError, SmxError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], None]:
    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path / "login"))
    (tmp_path / "login").mkdir()
    return lambda content: (tmp_path / "login" / "config.json").write_text(json.dumps(content)) and None


REFUSALS = [
    (
        "pull access denied for x, repository does not exist or may require 'docker login'",
        "docker login hub.test:5000",
        0,
    ),
    ("Head http://hub.test:5000/v2/: no basic auth credentials", "docker login hub.test:5000", 0),
    ("manifest for hub.test:5000/team/train:1 not found: manifest unknown: manifest unknown", "name and the tag", 0),
    ("http: server gave HTTP response to HTTPS client", "insecure-registries", 0),
    ("x509: certificate signed by unknown authority", "/etc/docker/certs.d/hub.test:5000/ca.crt", 0),
    ("no matching manifest for linux/amd64 in the manifest list entries", "build this one", 0),
    ("dial tcp: lookup hub.test: no such host", "docker load", 0),
    (
        "dial tcp: lookup hub.test on 10.0.0.1:53: dial udp 10.0.0.1:53: connect: network is unreachable",
        "docker load",
        0,
    ),
    (
        "dial tcp: lookup hub.test on 127.0.0.1:53: read udp 127.0.0.1:4->127.0.0.1:53: connection refused",
        "docker load",
        0,
    ),
    ("dial tcp: lookup hub.test: i/o timeout", "docker pull", 1),
    ("invalid reference format", "Correct it", 0),
    ("write /var/lib/docker/tmp/x: no space left on device", "Free some space", 1),
    ("toomanyrequests: You have reached your pull rate limit", "docker login hub.test:5000", 1),
    ("dial tcp 127.0.0.1:5000: connect: connection refused", "docker pull hub.test:5000/team/train:1", 1),
    ("received unexpected HTTP status: 503 Service Unavailable", "docker pull", 1),
    ("unexpected EOF", "docker pull", 1),
    ("'scratch' is a reserved name", "Use the name of another image", 0),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("my-trainng", "my-training:latest"),
        ("my-training:lates", "my-training:latest"),
        ("my-training:v3", "my-training:v2"),
        ("hub.test:5000/team/trian:1", "hub.test:5000/team/train:1"),
        ("local-onne", "localhost/local-one:latest"),
        ("my-training", ""),
        ("local-one:latest", ""),
        ("hub.test:5000/team/train:1", ""),
        ("somebody/elses:latest", ""),
        ("alpine:latest", ""),
        ("", ""),
        ("sha256:" + "0" * 64, ""),
    ],
)
def test_the_image_that_a_misspelt_name_means_is_known_by_its_repository(name: str, meant: str) -> None:
    from jupyter_smx.engines.docker.images import registry  # noqa: PLC0415 - imports Docker's library

    known = ["my-training:latest", "my-training:v2", "hub.test:5000/team/train:1", "localhost/local-one:latest"]
    assert registry.suggest_image(name, known) == (f"Did you mean {meant}?" if meant else "")
    assert registry.suggest_image(name, []) == ""


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("debpy", "debpy means debpy:latest. The images debpy here are debpy:3.11, debpy:rf13 and debpy:rf9."),
        ("debpy:9-slim-bookworm", "The images debpy here are debpy:3.11, debpy:rf13 and debpy:rf9."),
        ("debpy:3.12", "Did you mean debpy:3.11?"),
        ("dbepy:3.11", "Did you mean debpy:3.11?"),
        ("many", "many means many:latest. The images many here are many:0, many:1, many:2, many:3, many:4 and 3 more."),
    ],
)
def test_a_forgotten_tag_gets_those_that_there_are(name: str, hint: str) -> None:
    from jupyter_smx.engines.docker.images import registry  # noqa: PLC0415 - imports Docker's library

    known = ["debpy:rf9", "debpy:3.11", "debpy:rf13", *(f"many:{number}" for number in range(8))]
    assert registry.suggest_image(name, known) == hint


def test_a_configuration_of_docker_that_is_no_json_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_smx.engines.docker.images import registry  # noqa: PLC0415 - imports Docker's library

    monkeypatch.setenv("DOCKER_CONFIG", os.fspath(tmp_path))
    assert registry.read_login("hub.test/team/train:1") == registry.Login()
    (tmp_path / "config.json").write_text("{")
    assert f"{tmp_path}/config.json is not JSON" in registry.read_login("hub.test/team/train:1").trouble
    assert f"{tmp_path}/config.json is not JSON" in registry.read_all_logins().trouble
    login = {"auths": {"hub.test": {"auth": base64.b64encode(b"ann:secret").decode()}}}
    (tmp_path / "config.json").write_text(json.dumps(login))
    logins = json.loads(base64.urlsafe_b64decode(registry.read_all_logins().header))
    assert logins["hub.test"]["username"] == "ann"


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize(("words", "cure", "transient"), REFUSALS)
async def test_what_a_registry_says_is_told_with_the_rule_and_the_cure(
    tmp_path: Path, words: str, cure: str, transient: int, *, is_begun: bool
) -> None:
    async with running(tmp_path) as daemon:
        if is_begun:
            daemon.say(told(LAYERS[0], "Waiting"), {"errorDetail": {"message": words}, "error": words})
        else:
            daemon.status, daemon.is_chunked = b"500 Internal Server Error", False
            daemon.say({"message": words}, None)
        with pytest.raises(RefusedError) as error:
            await Ear(pulls_of(daemon)).task
        told_of = error.value
        assert words.rstrip(".") in told_of.message
        assert (told_of.field, told_of.value, told_of.transient) == ("image", NAME, bool(transient))
        assert cure in told_of.cure
        assert told_of.rule


NAMED = [
    (
        "corp.io/certificate-tool:1",
        'Get "https://corp.io/v2/certificate-tool/manifests/1": dial tcp 10.0.0.1:443: connect: connection refused',
        "does not respond",
    ),
    (
        "certificate-tool:1",
        "pull access denied for certificate-tool, repository does not exist or may require 'docker login'",
        "has no such image, or this user has no access",
    ),
    ("certificate", "manifest for certificate:latest not found: manifest unknown", "has no such image."),
    ("corp.io/team/denied:1", 'Get "https://corp.io/v2/": net/http: TLS handshake timeout', "does not respond"),
    (
        "corp.io/team/denied:1",
        'Head "https://corp.io/v2/team/denied/manifests/1": net/http: TLS handshake timeout',
        "does not respond",
    ),
    (
        "corp.io/forbidden-city",
        "error for corp.io/forbidden-city: net/http: TLS handshake timeout",
        "does not respond",
    ),
    ("denied.corp.io/x", "dial tcp: lookup denied.corp.io on 10.0.0.1:53: no such host", "cannot reach"),
    ("forbidden", "failed to ask for forbidden: unexpected EOF", "does not respond"),
    ("corp.io/x509:1", 'Get "https://corp.io/v2/x509/manifests/1": EOF', "does not respond"),
    ("corp.io/x", "remote error: tls: bad certificate", "does not trust"),
    ("corp.io/x", 'Get "https://corp.io/v2/": tls: failed to verify certificate: x509: expired', "does not trust"),
]


@pytest.mark.parametrize(("name", "words", "rule"), NAMED)
def test_the_name_of_an_image_says_nothing_of_what_its_registry_said(name: str, words: str, rule: str) -> None:
    from jupyter_smx.engines.docker.images.registry import refusal  # noqa: PLC0415 - imports Docker's library

    told_of = refusal(name, "unix:///x", words)
    assert rule in (told_of.rule or "")
    assert told_of.transient is (rule == "does not respond")
    assert words in told_of.message


PODMAN_SAYS = [
    ("denied", "podman login --authfile ~/.docker/config.json hub.test:5000"),
    ("x509: unknown authority", "/etc/containers/certs.d/hub.test:5000/ca.crt"),
    ("http: server gave HTTP response to HTTPS client", "registries.conf"),
    ("manifest unknown", "podman load or podman build"),
    ("unexpected EOF", "podman pull hub.test:5000/team/train:1"),
    ("no matching manifest for linux/arm64", "podman build --platform"),
    ("no space left on device", "podman system df"),
]


@pytest.mark.parametrize(("words", "cure"), PODMAN_SAYS)
def test_of_podman_it_is_said_how_podman_does_it(words: str, cure: str) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo  # noqa: PLC0415 - beside the next one
    from jupyter_smx.engines.docker.images.registry import refusal  # noqa: PLC0415 - imports Docker's library

    told_of = refusal(NAME, "unix:///x", words, kind=DaemonInfo(podman=(4, 9)))
    assert cure in told_of.cure
    assert "an image of Podman at unix:///x" in told_of.message
    said = f"{told_of.rule} {told_of.cure}".replace(".docker/config.json", "")
    assert "docker" not in said.lower()


def header(asked: str) -> dict[str, Any] | None:
    lines = [line.partition(": ") for line in asked.split("\r\n")]
    found = next((text for name, _, text in lines if name == "X-Registry-Auth"), "")
    return dict(json.loads(base64.urlsafe_b64decode(found))) if found else None


async def said_to(tmp_path: Path, name: str = NAME) -> dict[str, Any] | None:
    async with running(tmp_path) as daemon:
        daemon.say(None)
        await Ear(pulls_of(daemon), name).task
    return header(daemon.asked[0])


async def test_what_docker_login_left_is_given_to_its_registry_only_and_read_anew_each_time(
    tmp_path: Path, config: Callable[[dict[str, Any]], None]
) -> None:
    assert await said_to(tmp_path) is None
    config({"auths": {"hub.test:5000": {"auth": base64.b64encode(b"ann:pass:word").decode()}}})
    said = await said_to(tmp_path)
    assert said is not None
    assert (said["username"], said["password"]) == ("ann", "pass:word")
    assert await said_to(tmp_path, "elsewhere.test/train") is None
    assert await said_to(tmp_path, "train") is None


async def test_a_helper_for_credentials_is_asked(
    tmp_path: Path, config: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker-credential-ours"
    program.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"$1 $host\\", \\"Secret\\": \\"s\\"}"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config({"credHelpers": {"hub.test:5000": "ours"}})
    said = await said_to(tmp_path)
    assert said is not None
    assert (said["Username"], said["Password"]) == ("get hub.test:5000", "s")


async def test_a_helper_for_credentials_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, config: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would hold one of two threads forever, and after two of them every login would fail."""
    from jupyter_smx.engines.docker.images import registry  # noqa: PLC0415 - imports Docker's library

    program = tmp_path / "docker-credential-hangs"
    program.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! $$ > '{tmp_path}/numbers'\nwait\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(registry, "_HELPER_SECONDS", 0.5)
    config({"credsStore": "hangs"})
    async with running(tmp_path) as daemon:
        daemon.say({"error": "denied"})
        with pytest.raises(RefusedError, match=r"docker-credential-hangs did not answer within 500 ms"):
            await asyncio.wait_for(Ear(pulls_of(daemon)).task, 20)
    numbers = (tmp_path / "numbers").read_text().split()
    assert len(numbers) == 2
    await eventually(lambda: not any(psutil.pid_exists(int(number)) for number in numbers), within=10)


async def test_what_docker_login_left_and_nobody_can_read_is_told_where_it_matters(
    tmp_path: Path, config: Callable[[dict[str, Any]], None]
) -> None:
    config({"auths": {"hub.test:5000": "not a login"}})
    async with running(tmp_path) as daemon:
        daemon.say({"error": "denied"})
        with pytest.raises(SmxError, match="the credentials of docker login cannot be read") as error:
            await Ear(pulls_of(daemon)).task
    assert "docker login hub.test:5000" in error.value.cure


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        (DaemonInfo(docker=(28, 0)), "docker login"),
        (DaemonInfo(podman=(5, 0)), "podman login --authfile ~/.docker/config.json"),
    ],
)
def test_at_amazons_registries_a_login_is_a_password_of_theirs(kind: DaemonInfo, program: str) -> None:
    from jupyter_smx.engines.docker.images import registry  # noqa: PLC0415 - imports Docker's library

    place = "763104351884.dkr.ecr.eu-west-1.amazonaws.com"
    told_of = registry.refusal(f"{place}/pytorch-training:2.5", "unix:///x", "no basic auth credentials", kind=kind)
    asked = "aws ecr get-login-password --region eu-west-1"
    assert f"run {asked} | {program} --username AWS --password-stdin {place} (valid" in told_of.cure
    other = registry.refusal(f"{place}.evil.test/a:1", "unix:///x", "no basic auth credentials", kind=kind)
    assert f"{program} {place}.evil.test as this user" in other.cure
