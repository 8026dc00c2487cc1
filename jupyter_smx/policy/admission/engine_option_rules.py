"""Check that an engine has the options that a job names; separate, because each engine has others. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options import docker_options
from jupyter_smx.model.text import engine_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.spec.job_spec import JobSpec

_DOCKER = "docker"


def check(spec: JobSpec, *, options: Sequence[str]) -> None:
    """Refuse an option that is not among ``options``, which are those of the engine.

    :raises ValidationError: names the option, and lists those of the engine.
    """
    for name, value in spec.engine_options.items():
        if name not in options:
            raise _no_such_option_error(engine_kind(spec.engine), name, value, options)


def _no_such_option_error(engine: str, name: str, value: str, options: Sequence[str]) -> ValidationError:
    docker = docker_options.engine_option_cure(name) if engine == _DOCKER else ""
    known = suggest_names(name, options) or "Remove the option." if options else "Remove --engine-option."
    return ValidationError(
        f"--engine-option {name}: the engine {engine} has no option {name!r}.",
        field="engine_options",
        value=f"{name}={value}",
        rule=f"Its options are {', '.join(options)}." if options else "It has no options.",
        cure=docker or known,
    )
