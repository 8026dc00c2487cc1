from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from traitlets.config import Config, Configurable

from jupyter_smx.engines import registry
from jupyter_smx.engines.base import Engine
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.model.errors import RefusedError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENTRY_POINTS = """[jupyter_smx.engines]
local = jupyter_smx.engines.local.engine:LocalEngine
moon = far_engines:Moon [moon]
bare = far_engines_without_extra:Bare
broken = far_engines_broken:Broken
word = far_engines_word:WORD
outdated = far_engines_old:Old
present = far_engines_old:New
"""

OLD_ENGINE = """
from jupyter_smx.engines.base import Engine

class Base(Engine):
    async def bring(self, handle, host, sources):
        raise AssertionError("nothing of it runs")

    @classmethod
    def remains(cls, cluster, host):
        raise AssertionError("nothing of it runs")

class Old(Base):
    def __init__(self, **traits):
        raise AssertionError("nothing of it runs")

    async def survey(self, handles):
        raise AssertionError("nothing of it runs")

class New(Engine):
    recall = 3.0
"""


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a real package, with engines that cannot be imported for four reasons."""
    info = tmp_path / "far_engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-engines\nVersion: 1.0\nProvides-Extra: moon\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "far_engines.py").write_text("import moon_client_that_nobody_has\n")
    (tmp_path / "far_engines_without_extra.py").write_text("import bare_client_that_nobody_has\n")
    (tmp_path / "far_engines_broken.py").write_text("raise OSError('no driver')\n")
    (tmp_path / "far_engines_word.py").write_text("WORD = 'hello'\n")
    (tmp_path / "far_engines_old.py").write_text(OLD_ENGINE)
    monkeypatch.syspath_prepend(tmp_path)


def test_the_local_engine_is_found_and_configured_by_its_parent(tmp_path: Path) -> None:
    parent = Configurable(config=Config({"LocalEngine": {"data_dir": str(tmp_path), "launch_timeout": 7.0}}))
    engine = registry.create("local", parent=parent)
    assert isinstance(engine, LocalEngine)
    assert (engine.data_dir, engine.launch_timeout) == (str(tmp_path), 7.0)


def test_an_engine_that_is_configured_with_what_it_cannot_take_is_refused_with_its_words(tmp_path: Path) -> None:
    """It was reported as an internal error, with the reason only in the controller's log."""
    config = Config({"LocalEngine": {"data_dir": str(tmp_path), "grace": "soon"}})
    with pytest.raises(RefusedError, match=r"'local' has an invalid configuration: .*'grace' trait.*'soon'") as told:
        registry.create("local", Configurable(config=config))
    assert "jupyter_smx_config.py" in told.value.rule
    assert f"kill {os.getpid()} " in told.value.cure


def test_a_name_that_an_engine_does_not_have_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """``network_isolaton`` in the configuration gave hosts without isolation, and no error."""
    inner = {"Part": {"anything": 1}}  # a class of which an engine may be the parent
    config = Config({"LocalEngine": {"data_dir": str(tmp_path), "apply_limit": False, **inner}})
    with pytest.raises(
        RefusedError, match=r"'local' has an invalid configuration: c\.LocalEngine\.apply_limit is no"
    ) as told:
        registry.create("local", Configurable(config=config))
    assert told.value.cure.startswith("Did you mean apply_limits?")


def test_an_unknown_engine_is_told_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(ValidationError) as told:
        registry.engine_class("locla")
    assert told.value.field == "engine"
    said = told.value.rule.removeprefix("Installed engines: ").removesuffix(".").split(", ")
    assert said == sorted(said)
    assert {"bare", "broken", "local", "moon", "word"} <= {*said}
    assert told.value.cure == "Did you mean local?"


def test_a_missing_extra_is_told_with_the_command_that_installs_it() -> None:
    with pytest.raises(RefusedError) as told:
        registry.engine_class("moon")
    assert told.value.cure == f"Install it with: {sys.executable} -m pip install 'far-engines[moon]'"
    assert "moon_client_that_nobody_has" in told.value.message


def test_a_missing_module_without_an_extra_is_told_by_its_own_name() -> None:
    with pytest.raises(RefusedError, match="pip install 'bare_client_that_nobody_has'"):
        registry.engine_class("bare")


def test_an_engine_whose_import_fails_is_refused_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="OSError: no driver"):
        registry.engine_class("broken")


def test_an_entry_point_that_is_no_engine_is_refused() -> None:
    with pytest.raises(RefusedError, match="far_engines_word:WORD, which is not a subclass"):
        registry.engine_class("word")


@pytest.mark.parametrize("load", [registry.engine_class, registry.create])
def test_an_engine_with_methods_of_an_earlier_port_is_refused_with_the_old_and_the_new_names(
    load: Callable[[str], object],
) -> None:
    with pytest.raises(RefusedError) as told:
        load("outdated")
    assert told.value.message == (
        "--engine: 'outdated' uses methods of the engine port that were renamed: survey (now observe_all), "
        "bring (now provide_files), remains (now spool_path)."
    )
    assert (told.value.field, told.value.value) == ("engine", "outdated")
    assert told.value.rule
    assert told.value.cure


def test_what_has_an_old_name_and_is_no_method_is_no_reason_to_refuse_an_engine() -> None:
    assert registry.engine_class("present").__name__ == "New"


@pytest.mark.parametrize("old", registry.RENAMED_METHODS)
def test_one_method_of_an_earlier_port_is_enough_to_refuse_an_engine(monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    engine = registry.engine_class("present")
    monkeypatch.setattr(engine, old, lambda _self: None, raising=False)
    with pytest.raises(RefusedError, match=rf"renamed: {old} \(now {registry.RENAMED_METHODS[old]}\)\."):
        registry.engine_class("present")


@pytest.mark.parametrize(("old", "new"), registry.RENAMED_METHODS.items())
def test_the_port_has_each_method_by_its_new_name_only(old: str, new: str) -> None:
    assert (hasattr(Engine, old), callable(getattr(Engine, new))) == (False, True)


def test_listing_engines_imports_none() -> None:
    assert "moon" in registry.installed_engines()
    assert "far_engines" not in sys.modules


def test_entry_points_are_read_once_until_a_package_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller reads them three times at its start, and serves engines that are installed later."""
    before = registry.installed_engines()
    with monkeypatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda **_group: pytest.fail("all packages are read again"))
        assert registry.installed_engines() == before
    info = tmp_path / "near_engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: near-engines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jupyter_smx.engines]\nsun = near_engines:Sun\n")
    assert registry.installed_engines().keys() - before.keys() == {"sun"}
    (tmp_path / "near_engines-1.0.dist-info").rename(tmp_path / "removed")
    assert registry.installed_engines() == before
