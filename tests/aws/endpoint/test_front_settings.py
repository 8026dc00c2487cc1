"""The settings of the front: a file of the administrator, the server's configuration over it, words over both."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from traitlets.config import Config

from jupyter_smx.aws_endpoint import switch
from jupyter_smx.aws_endpoint.settings import read_settings
from jupyter_smx.aws_endpoint.switch import Switch
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.server.aws_front import lead_clients_to_front

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def write_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what writes the configuration file of this test."""
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / "jupyter_smx_config.py").write_text(text)

    return write


def test_words_win_over_the_server_and_the_server_over_the_file(write_config: Callable[[str], None]) -> None:
    write_config('c.SmxAws.engine = "docker"\nc.SmxAws.hold = 3\nc.SmxAws.images = {"torch": "conda:t"}\n')
    found = read_settings(["--SmxAws.s3=aws"], Config({"SmxAws": {"hold": 5.0, "s3": "local"}}))
    assert (found.engine, found.hold, found.s3, found.images) == ("docker", 5.0, "aws", {"torch": "conda:t"})
    assert not found.enabled


def test_the_settings_of_the_controller_in_the_same_file_are_left_alone(write_config: Callable[[str], None]) -> None:
    write_config("c.ControllerApp.idle_exit = 60.0\nc.LocalEngine.isolate = False\nc.SmxAws.enabled = True\n")
    assert read_settings().enabled


@pytest.mark.parametrize(
    ("words", "images"),
    [
        (["--SmxAws.images=torch:2=conda:t"], {"torch:2": "conda:t"}),
        (["--SmxAws.images=tf=uv:tensorflow==2.16", "--SmxAws.images=b=c"], {"tf": "uv:tensorflow==2.16", "b": "c"}),
        (['--SmxAws.images={"(?=a)b": "conda:t", "c": "d"}'], {"(?=a)b": "conda:t", "c": "d"}),
        (["--SmxAws.images={}"], {}),
    ],
)
def test_images_on_a_command_line(
    write_config: Callable[[str], None], words: list[str], images: dict[str, str], recwarn: pytest.WarningsRecorder
) -> None:
    write_config("")
    assert read_settings(words).images == images
    assert recwarn.list == [], "no form that traitlets gives up"


@pytest.mark.parametrize("word", ["novalue", '{"a": 1}', '{"a"', "(=conda:t"])
def test_images_that_are_none_are_refused(write_config: Callable[[str], None], word: str) -> None:
    write_config("")
    with pytest.raises(ValidationError, match="The configuration of SmxAws cannot be read"):
        read_settings([f"--SmxAws.images={word}"])


@pytest.mark.parametrize(
    "text",
    [
        "c.SmxAws.hold = 99\n",
        "c.SmxAws.s3 = 'moon'\n",
        "1/0\n",
        "c.Application.log_level = {}\n",
        "c.SmxAws.images = {'(': 'a'}\n",
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_ends_no_process(
    write_config: Callable[[str], None], text: str
) -> None:
    write_config(text)
    with pytest.raises(ValidationError, match="The configuration of SmxAws cannot be read"):
        read_settings()


async def test_a_front_that_the_server_starts_has_all_settings_of_the_servers_configuration(
    write_config: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config("c.SmxAws.engine = 'docker'\n")
    started: list[list[str]] = []

    def plan_on(*arguments: Any) -> Switch:
        started.append(arguments[-1])
        return Switch([], "http://127.0.0.1:1", "")

    monkeypatch.setattr(switch, "plan_on", plan_on)
    images = {"torch:.*[a-z]": "conda:t", "(?=tf)x='\\d{2}'": "uv:tensorflow==2.16", "ü b": 'uv:a"b'}
    own = {"enabled": True, "images": images, "match_images": True, "hold": 5.0, "processing_keep_alive": 60}
    assert await lead_clients_to_front(Config({"SmxAws": own | {"typo": 1}}), logging.getLogger("test"))
    (words,) = started
    found = read_settings(words)
    assert {name: getattr(found, name) for name in own} == own
    assert found.engine == "docker"
    assert not [word for word in words if "engine" in word]
