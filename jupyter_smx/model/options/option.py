"""The declaration of one option: its spellings, its value, its help, where it goes, what SageMaker calls it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Value = Literal["text", "number", "duration", "size", "flag", "choice", "location", "special"]
"""Kind of a value. ``special`` values have a parser of their own; all others are plain.

=============  ======================================  =============================
value          on the line and as a keyword            in :class:`JobSpec`
=============  ======================================  =============================
``text``       text                                    ``str``
``number``     a whole number                          ``int``
``duration``   seconds, or text like ``10m``           ``int``, seconds
``size``       bytes, or text like ``8g``              ``int``, bytes
``flag``       nothing on the line; ``True``           ``bool``
``choice``     one of :attr:`Option.choices`           ``str``
``location``   a path or a URL                         ``str``, an absolute path or a URL
=============  ======================================  =============================
"""

Kind = Literal["train", "process"]

Target = Literal["client", "controller", "engine", "host"]
"""The furthest process that reads the option."""


Completion = Literal["", "engine", "instance_type", "interpreter"]
"""Names that Tab completion lists for a value: names that a controller lists."""


class SageMakerNames(Struct, frozen=True, kw_only=True):
    """SageMaker's names of an option; "" if it has none.

    ``training_api`` and ``processing_api`` are paths in the answers to ``DescribeTrainingJob`` and
    ``DescribeProcessingJob``. ``estimator`` and ``processor`` are keywords of SDK 2. ``trainer`` is a keyword of
    ``ModelTrainer`` of SDK 3, or ``keyword:Class.field`` if that keyword takes an object. ``flag_words`` are the API's
    words for False and True, if these are no booleans.
    """

    training_api: str = ""
    processing_api: str = ""
    estimator: str = ""
    processor: str = ""
    trainer: str = ""
    flag_words: tuple[str, str] | None = None


class Option(Struct, frozen=True, kw_only=True):
    """One row of the table. ``name``, ``type`` and ``kinds`` come from the class that declares it."""

    spellings: tuple[str, ...]
    """On a line: the short ones first, the long one last."""
    help: str
    """Its effect, as a phrase without a full stop; for Python too, unless there is ``keyword_help``."""
    value: Value = "special"
    metavar: str = ""
    """Form of the value on a line; "" for a flag."""
    example: str = ""
    """A value as typed on a line."""
    keyword_help: str = ""
    keyword_example: str = ""
    """A value as written in Python."""
    repeat: bool = False
    """It may be given several times on a line."""
    comma: bool = False
    """Its value on a line is a list with commas."""
    default: Any = None
    """Value of the keyword if nothing sets it; a plain option with a ``field`` has that field's default."""
    default_text: str = ""
    """Default in help, if the value itself does not show it."""
    field: str = ""
    """Its field in :class:`JobSpec`; "" where the job request does not carry it, or where several options make one."""
    target: Target = "controller"
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    counts: str = ""
    """The thing that a number counts, as ``of hosts``."""
    kind_rule: str = ""
    """Why the other kind of job does not have it."""
    completion: Completion = ""
    label: str = ""
    """Its name in a comparison of two jobs; "" where the comparison has code of its own, or leaves it out."""
    configurable: bool = False
    """Configuration may set a default for the magics of a kernel."""
    sagemaker: SageMakerNames = SageMakerNames()
    name: str = ""
    """Keyword of :func:`jupyter_smx.train`."""
    type: Any = None
    """Type of the keyword."""
    kinds: tuple[Kind, ...] = ()

    @property
    def spelling(self) -> str:
        """The long spelling on a line."""
        return self.spellings[-1]

    @property
    def is_flag(self) -> bool:
        """Return True if the option takes no value on a line."""
        return not self.metavar

    @property
    def is_plain(self) -> bool:
        """Return True if the field of the job request is the value itself, converted by its :attr:`value`."""
        return self.value != "special" and bool(self.field)

    @property
    def is_keyword(self) -> bool:
        """Return True if :func:`jupyter_smx.train` or :func:`jupyter_smx.process` takes it."""
        return bool(self.kinds)

    def shown_default(self) -> str:
        """Return the default for help pages; "" if there is nothing to show."""
        if self.default_text or self.is_flag or not self.default or not isinstance(self.default, (str, int)):
            return self.default_text
        return str(self.default)
