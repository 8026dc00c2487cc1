"""A name in the configuration that no class reads is reported at once, with the nearest existing name."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import Int
from traitlets.config import Application, Config

from jupyter_smx.engines import registry
from jupyter_smx.model.errors import ValidationError

ENGINES = ("DockerEngine", "LocalEngine")


class App(Application):
    max_hosts = Int(1).tag(config=True)
    inner = Int(1)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"App": {"max_hosts": 2, "log_level": 10}},
        {"Application": {"log_level": 10}},
        {"DockerEngine": {"whatever": 1}},
        {"Scheduler": {"anything": 1}},
        {"BaseDockerEngine": {}, "LocalGPUEngine": {}, "RemoteDockerEngine": {}, "Docker": {}, "Log": {}},
        {"App": {"LocalEngine": {"grace": 1.0}}},
        {"Application": {"max_hosts": 2}},
    ],
    ids=[
        "nothing",
        "own",
        "of its parent",
        "of an engine",
        "of a part of somebody's engine",
        "others",
        "inner",
        "over",
    ],
)
def test_what_somebody_may_read_is_left_alone(found: dict[str, Any]) -> None:
    registry.check_config(Config(found), App, ENGINES)


@pytest.mark.parametrize(
    ("found", "name", "says"),
    [
        ({"App": {"max_host": 2}}, "c.App.max_host", "Did you mean max_hosts?"),
        ({"Application": {"log_levl": 2}}, "c.Application.log_levl", "Did you mean log_level"),
        ({"LocalEngines": {}}, "c.LocalEngines", "Did you mean LocalEngine?"),
        ({"App": {"inner": 2}}, "c.App.inner", "App has no such option"),
        ({"App": {"quite_different": 2}}, "c.App.quite_different", "App has no such option"),
        ({"DokerEngine": {"user": "0:0"}}, "c.DokerEngine", "Did you mean DockerEngine?"),
        ({"dockerEngine": {"user": "0:0"}}, "c.dockerEngine", "it is outside any section"),
        ({"max_hosts": 3}, "c.max_hosts", "Write c.App.max_hosts"),
        ({"SmxMagics": {"keep_alive": 60}}, "c.SmxMagics", "SmxMagics is read from ipython_config.py"),
    ],
)
def test_what_nobody_reads_is_refused_with_what_was_meant(found: dict[str, Any], name: str, says: str) -> None:
    with pytest.raises(ValidationError) as told:
        registry.check_config(Config(found), App, ENGINES)
    assert (told.value.field, told.value.value) == ("config", name)
    assert f"config: {name} has no effect" in told.value.message
    assert says in str(told.value)


def test_a_list_that_is_added_to_is_a_name_like_others() -> None:
    config = Config()
    config.App.max_hosts.append(2)
    registry.check_config(config, App, ENGINES)


def test_the_sections_of_what_is_installed_are_known_without_an_import() -> None:
    assert set(ENGINES) <= set(registry.engine_class_names())
