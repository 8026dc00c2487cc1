"""A test that changes the machine is found, by the kind of what it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins import machine_state


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Make a folder of devices, a file of the system and a home."""
    for name in ("dev", "home/.cache", "home/plain"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("dev/null", "hosts", "home/.profile"):
        (tmp_path / name).write_text("", encoding="utf-8")
    return tmp_path


def read(machine: Path) -> machine_state.State:
    return machine_state.read(machine / "dev", (machine / "hosts",), machine / "home")


def test_what_nothing_changed_is_equal(machine: Path) -> None:
    before = read(machine)
    (machine / "home" / ".cache" / "x").touch()
    (machine / "home" / "plain" / "x").touch()
    (machine / "home" / ".local").mkdir()
    assert machine_state.differences(before, read(machine)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda machine: (machine / "dev" / "null").unlink(), "dev/null is gone"),
        (lambda machine: (machine / "dev" / "null").chmod(0o600), "dev/null has changed"),
        (lambda machine: (machine / "dev" / "mine").touch(), "dev/mine is new"),
        (lambda machine: (machine / "hosts").write_text("127.0.0.1 mine\n"), "hosts has changed"),
        (lambda machine: (machine / "home" / ".profile").write_text("exit\n"), "home/.profile has changed"),
        (lambda machine: (machine / "home" / ".netrc").touch(), "home/.netrc is new"),
    ],
    ids=["device gone", "device mode", "device new", "system file", "dot file", "dot file new"],
)
def test_what_a_test_changed_is_named(machine: Path, change: object, said: str) -> None:
    before = read(machine)
    assert callable(change)
    change(machine)
    assert machine_state.differences(before, read(machine)) == [f"{machine}/{said}"]


def test_a_package_that_a_test_installed_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(machine))
    packages = Path(machine_state._interpreter_folders(str(machine))[-1])
    packages.mkdir(parents=True)
    before = read(machine)
    (packages / "mine").mkdir()
    assert machine_state.differences(before, read(machine)) == [f"{packages / 'mine'} is new"]
