from __future__ import annotations

import hashlib
import pickle
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.code import variable_file as variables
from jupyter_smx.kernel.request import payload
from jupyter_smx.model.errors import SmxError, UnavailableError, ValidationError

VALUES = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}", fullmatch=True),
    st.integers() | st.binary() | st.text() | st.lists(st.floats(width=32)),
)


@given(VALUES)
def test_what_is_packed_comes_back_and_is_named_by_its_content(tmp_path_factory: Any, variables: Any) -> None:
    folder = tmp_path_factory.mktemp("payloads")
    packed = payload.pack(variables, folder)
    path = Path(packed.path)
    assert repr(dict(payload.unpack(path))) == repr(variables)
    assert path.name == f"{hashlib.sha256(path.read_bytes()).hexdigest()}.pkl" == f"{packed.sha256}.pkl"
    assert packed.sizes.keys() == variables.keys()
    assert packed.protocol.split("/")[0] == ".".join(map(str, sys.version_info[:2]))
    assert path.stat().st_mode & 0o777 == 0o600
    assert payload.pack(variables, folder).path == packed.path
    assert list(folder.iterdir()) == [path]


def test_functions_of_the_notebook_travel_by_value(tmp_path: Path) -> None:
    offset = 2
    packed = payload.pack({"f": lambda x: x + offset}, tmp_path)
    assert payload.unpack(Path(packed.path)).f(40) == 42


class Local:
    """By reference, as this module can be imported."""


def make_net() -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("class Net: pass\ndef scale(x): return x\n", names)  # noqa: S102
    return names


def test_the_code_that_travels_is_named_with_its_variable(tmp_path: Path) -> None:
    net = make_net()
    chosen = {"model": net["Net"](), "scale": net["scale"], "f": lambda: 1, "n": 1, "local": Local(), "path": Path()}
    assert payload.pack(chosen, tmp_path).code == (
        "the class Net in model",
        "the function scale",
        "the function <lambda> in f",
    )
    assert payload.pack({"function": net["scale"]}, tmp_path, "scale(): ").code == ("the function scale",)


def test_nothing_is_written_where_the_code_is_refused(tmp_path: Path) -> None:
    def refuse(code: Any) -> None:
        raise ValidationError(", ".join(code))

    with pytest.raises(ValidationError, match="the function <lambda> in f"):
        payload.pack({"f": lambda: 1}, tmp_path, check_code=refuse)
    assert list(tmp_path.iterdir()) == []


def test_code_of_another_python_does_not_come_back_and_values_do(tmp_path: Path) -> None:
    path = tmp_path / "result.pkl"
    path.write_bytes(pickle.dumps({"good": pickle.dumps(1), "f": cloudpickle.dumps(lambda: 1)}))
    found = payload.unpack(path, ("good", "f"), writer="3.7.17")
    assert dict(found) == {"good": 1}
    assert "'f' cannot be loaded in this kernel: it contains the code of a function" in found.missing["f"]
    assert "which Python 3.7 compiled" in found.missing["f"]
    ours = ".".join(map(str, sys.version_info[:3]))
    assert payload.unpack(path, ("good", "f"), writer=ours).f() == 1


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def _closure() -> Any:
    lock = threading.Lock()
    return lambda: lock


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (SimpleNamespace(model=SimpleNamespace(ok=1, lock=threading.Lock())), "cfg.model.lock"),
        ({"a": [1, threading.Lock()]}, "cfg['a'][1]"),
        (Slotted(threading.Lock()), "cfg.inner"),
        (threading.Lock(), "cfg"),
        (_closure(), "cfg → lock"),
    ],
)
def test_a_variable_that_cannot_be_pickled_is_named_down_to_the_culprit(tmp_path: Path, value: Any, path: Any) -> None:
    with pytest.raises(ValidationError) as raised:
        payload.pack({"good": 1, "cfg": value}, tmp_path)
    assert f"--send cfg: {path} is a _thread.lock and cannot be pickled." in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_circle_with_a_culprit_in_it_ends(tmp_path: Path) -> None:
    value = {"lock": threading.Lock()}
    value["self"] = value
    with pytest.raises(ValidationError, match=r"cfg\['lock'\]"):
        payload.pack({"cfg": value}, tmp_path)


def test_a_variable_that_the_notebook_lacks_gets_the_nearest_name() -> None:
    with pytest.raises(ValidationError, match="Did you mean config"):
        payload.select_variables(("confg",), {"config": 1, "_private": 2})


def test_one_received_variable_that_cannot_be_loaded_is_named_and_the_others_come(tmp_path: Path) -> None:
    path = tmp_path / "result.pkl"
    path.write_bytes(pickle.dumps({"good": pickle.dumps(1), "bad": b"\x80\x05cno_such_module\nThing\n."}))
    found = payload.unpack(path, ("good", "bad", "never"))
    assert (dict(found), found.good) == ({"good": 1}, 1)
    assert "cannot be loaded in this kernel: ModuleNotFoundError" in found.missing["bad"]
    with pytest.raises(KeyError, match="'never' did not come back"):
        found["never"]
    with pytest.raises(AttributeError, match="Did you mean good"):
        _ = found.goood


def test_a_file_of_results_that_is_broken_says_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "result.pkl"
    path.write_bytes(b"\x80\x05")
    with pytest.raises(SmxError, match=r"result\.pkl"):
        payload.unpack(path)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(variables, "write", full)
    with pytest.raises(UnavailableError, match="No space left"):
        payload.pack({"a": 1}, tmp_path)
    assert list(tmp_path.iterdir()) == []
