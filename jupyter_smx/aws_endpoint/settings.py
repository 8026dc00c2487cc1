"""The settings of an administrator or a user: ``c.SmxAws`` in ``jupyter_smx_config.py``."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_core.paths import jupyter_config_path
from traitlets import Bool, Dict, Enum, Float, Int, TraitError, Unicode
from traitlets.config import Application, Configurable

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traitlets.config import Config

CONFIG_NAME = "jupyter_smx_config"


class _RegexDict(Dict):
    """Values by a regular expression; on a command line ``KEY=VALUE``, or JSON, since an expression may have a "="."""

    def from_string_list(self, s_list: list[str]) -> Any:
        """Read the words of a command line."""
        if len(s_list) == 1 and s_list[0].startswith("{"):
            return msgspec.json.decode(s_list[0])
        return super().from_string_list(s_list)

    def validate(self, obj: Any, value: Any) -> Any:
        """Refuse a key that is no regular expression."""
        found = super().validate(obj, value)
        for key in found or ():
            self._check_key(key)
        return found

    def _check_key(self, key: str) -> None:
        try:
            re.compile(key)
        except re.error as error:
            raise TraitError(f"{self.name}: {key!r} is not a regular expression: {error}") from error


class SmxAws(Configurable):
    """The front for clients of AWS."""

    enabled = Bool(
        default_value=False,
        help="Start the front with the Jupyter server, whose kernels and terminals then have its variables.",
    ).tag(config=True)
    engine = Unicode("local", help="Engine of the jobs that clients of AWS create.").tag(config=True)
    hold = Float(
        10.0,
        min=0.0,
        max=45.0,
        help="Seconds for which the first description of a job is held back for an SDK, until the job ends.",
    ).tag(config=True)
    images = _RegexDict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help=(
            "Interpreters of images, by a regular expression for the image's URI; a value is as of --python. "
            "Without one a job runs the Python of the front."
        ),
    ).tag(config=True)
    match_images = Bool(
        default_value=False,
        help="Run the image of a framework as an environment with its version, which is built once; else the job "
        "notes which Python it has.",
    ).tag(config=True)
    processing_keep_alive = Int(
        None,
        min=0,
        allow_none=True,
        help="Seconds for which hosts of processing jobs are kept warm; SageMaker has no field for it.",
    ).tag(config=True)
    s3 = Enum(
        ("local", "aws"),
        "local",
        help="Buckets of clients: local are folders below the data folder, aws are real ones.",
    ).tag(config=True)


class _SettingsApp(Application):
    """Reads the command line and the configuration file as Jupyter's programs do."""

    name = "jupyter-smx-aws"
    raise_config_file_errors = True


def read_settings(words: Sequence[str] = (), config: Config | None = None) -> SmxAws:
    """Return the settings of the configuration file, over them ``config``, over them the words of a command line.

    :raises ValidationError: the file cannot be run, or a value is invalid.
    """
    reader = _SettingsApp()
    try:
        reader.parse_command_line(list(words))
        typed = deepcopy(reader.config)
        reader.load_config_file(CONFIG_NAME, path=jupyter_config_path())
        if config is not None:
            reader.update_config(config)
        reader.update_config(typed)
        return SmxAws(config=reader.config)
    except (Exception, SystemExit) as error:  # traitlets ends the process for some invalid values
        raise ValidationError(
            f"The configuration of SmxAws cannot be read: {type(error).__name__}: {error}.",
            field="config",
            rule=f"It is in {CONFIG_NAME}.py in one of Jupyter's configuration folders.",
            cure="Correct the file; `jupyter --paths` lists its folders.",
        ) from error


def words_of(settings: SmxAws, names: Iterable[str]) -> list[str]:
    """Return the words of a command line by which another process reads the same values of some settings.

    Names without a setting are left out, since traitlets ignores them, too.
    """
    values = {name: getattr(settings, name) for name in names if settings.has_trait(name)}
    return [f"--SmxAws.{name}={_to_word(value)}" for name, value in values.items()]


def _to_word(value: object) -> str:
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
