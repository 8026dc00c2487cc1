"""Settings of libraries that other packages change when they are imported: numpy, pandas, matplotlib and torch."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Callable, List

from jupyter_smx.agent.system.interpreter.global_settings import Setting, Values

_NOT_THERE = (AttributeError, KeyError, TypeError, ValueError, RuntimeError)
"""Errors of a library whose import is not over, or that is another version."""


def library_settings() -> List[Setting]:
    """Return the settings of libraries, whether they are imported or not."""
    return [
        Setting("numpy", _reader("numpy", _read_numpy), _write_numpy),
        Setting("pandas", _reader("pandas", _read_pandas), _write_pandas),
        Setting("matplotlib", _reader("matplotlib", _read_parameters), _write_parameters),
        Setting("matplotlib", _reader("matplotlib.units", lambda units: dict(units.registry)), _write_units),
        Setting("matplotlib", _reader("matplotlib.cm", _read_colours), _write_colours),
        Setting("torch", _reader("torch", _read_torch), _write_torch),
    ]


def _reader(name: str, read: Callable[[Any], Values]) -> Callable[[], Values]:
    def read_if_imported() -> Values:
        module = sys.modules.get(name)
        try:
            return None if module is None else read(module)
        except _NOT_THERE:
            return None

    return read_if_imported


def _read_numpy(numpy: Any) -> Values:
    return {"errors": numpy.geterr(), "print": numpy.get_printoptions()}


def _write_numpy(values: Values) -> None:
    numpy: Any = sys.modules["numpy"]
    numpy.seterr(**values["errors"])
    numpy.set_printoptions(**values["print"])


def _read_pandas(_pandas: Any) -> Values:
    found = {}
    left = [("", sys.modules["pandas._config.config"]._global_config)]  # noqa: SLF001 - reading by name takes milliseconds
    while left:
        prefix, options = left.pop()
        for name, value in options.items():
            if isinstance(value, dict):
                left.append((f"{prefix}{name}.", value))
            else:
                found[prefix + name] = value
    return found


def _write_pandas(values: Values) -> None:
    now = _read_pandas(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an option may be deprecated
        for name, value in values.items():
            if name in now and now[name] is not value:
                sys.modules["pandas"].set_option(name, value)


def _read_parameters(matplotlib: Any) -> Values:
    return dict(dict.items(matplotlib.rcParams))  # its own reader chooses a backend


def _write_parameters(values: Values) -> None:
    for name, value in values.items():
        dict.__setitem__(sys.modules["matplotlib"].rcParams, name, value)


def _write_units(values: Values) -> None:
    _replace_content(sys.modules["matplotlib.units"].registry, values)


def _read_colours(maps: Any) -> Values:
    return dict(maps._colormaps._cmaps)  # noqa: SLF001 - the public registry gives copies of all maps


def _write_colours(values: Values) -> None:
    _replace_content(sys.modules["matplotlib.cm"]._colormaps._cmaps, values)  # noqa: SLF001


def _replace_content(content: Any, values: Values) -> None:
    for name in content.keys() - values.keys():
        del content[name]
    content.update(values)


def _read_torch(torch: Any) -> Values:
    return {
        "type": torch.get_default_dtype(),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "gradients": torch.is_grad_enabled(),
        "benchmark": torch._C._get_cudnn_benchmark(),  # noqa: SLF001 - the public one is looked up in several steps
    }


def _write_torch(values: Values) -> None:
    torch: Any = sys.modules["torch"]
    torch.set_default_dtype(values["type"])
    torch.set_float32_matmul_precision(values["precision"])
    torch.use_deterministic_algorithms(values["deterministic"])
    torch.set_grad_enabled(values["gradients"])
    torch._C._set_cudnn_benchmark(values["benchmark"])  # noqa: SLF001
