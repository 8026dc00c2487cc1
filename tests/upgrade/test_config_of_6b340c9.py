"""Configuration files of 6b340c9, with each trait that it had, configure the same; its engines are found as before."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from recorded_data import FIXTURE
from traitlets.config import Application, Config, Configurable, PyFileConfigLoader

from jupyter_smx.controller.app import ControllerApp
from jupyter_smx.engines import registry
from jupyter_smx.engines.base import Engine
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.magics.magics import SmxMagics
from jupyter_smx.server.app import SmxServerExtension

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNTS = {"ControllerApp": 28, "LocalEngine": 9, "DockerEngine": 14, "SmxServerExtension": 2, "SmxMagics": 5}
"""How many traits of its own each class had."""


def read(name: str) -> Config:
    return PyFileConfigLoader(name, str(FIXTURE / "config")).load_config()


def check(made: Any, config: Config) -> None:
    """See that a configurable has each name of its section and took each value."""
    section = type(made).__name__
    assert len(config[section]) == COUNTS[section]
    assert {*config[section]} <= {*made.class_trait_names(config=True)}
    assert {name: getattr(made, name) for name in config[section]} == dict(config[section])


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControllerApp]:
    """Give the controller's application, configured by the administrator's file."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(FIXTURE / "config"))
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path))
    made = ControllerApp()
    made.configure([])
    yield made
    Application.clear_instance()


def test_the_controller_takes_each_trait(app: ControllerApp) -> None:
    check(app, read("jupyter_smx_config.py"))
    limits = app.limits()
    assert limits.catalogue["lab.small"].price_per_hour == 0.02
    assert (limits.keep_alive_cap, limits.warm_pool_quota) == (7200, {"lab.small": 1, "*": 2})


@pytest.mark.parametrize("name", ["local", "docker"])
def test_an_engine_takes_each_trait(app: ControllerApp, name: str) -> None:
    check(registry.create(name, parent=app), read("jupyter_smx_config.py"))


def test_the_server_extension_takes_each_trait() -> None:
    config = read("jupyter_server_config.py")
    check(SmxServerExtension(config=config), config)


def test_the_magics_take_each_trait() -> None:
    config = read("ipython_config.py")
    settings = Config(config)
    settings.HistoryManager.enabled = False
    shell: InteractiveShell = InteractiveShell(config=settings)  # type: ignore[no-untyped-call]
    shell.run_line_magic("load_ext", "jupyter_smx")
    try:
        check(shell.magics_manager.registry["SmxMagics"], config)
    finally:
        session.close_session()


def test_the_classes_have_the_names_by_which_they_are_configured() -> None:
    found = {kind.__name__ for kind in (ControllerApp, SmxMagics, SmxServerExtension)}
    found |= {*registry.engine_class_names()}
    assert found >= {*COUNTS}, "engines may be added, and none of these goes"
    assert all(issubclass(kind, Configurable) for kind in (ControllerApp, SmxMagics, SmxServerExtension))


def test_both_engines_are_found_in_the_group_of_entry_points() -> None:
    found = {point.name: point.load() for point in entry_points(group="jupyter_smx.engines")}
    assert {"local": "LocalEngine", "docker": "DockerEngine"}.items() <= {
        name: kind.__name__ for name, kind in found.items()
    }.items()
    assert all(issubclass(kind, Engine) for kind in found.values())
    assert registry.GROUP == "jupyter_smx.engines"
