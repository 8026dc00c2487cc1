"""A script: its code, and the name that its jobs get."""

from __future__ import annotations

import tokenize
from pathlib import Path

from jupyter_smx.model.errors import ValidationError, nearest
from jupyter_smx.model.name import MAX_NAME, slug

_LONGEST = MAX_NAME - 7  # a hyphen and six digits of the id follow


def read(word: str) -> str:
    """Read the code of a script, in the encoding that it declares.

    :raises ValidationError: no such file, no text, a notebook, or nothing in it.
    """
    path = Path(word)
    if path.suffix == ".ipynb":
        raise _refused(word, "is a notebook.", "`jupyter nbconvert --to script` makes a script of it.")
    try:
        with tokenize.open(path) as file:
            code = file.read()
    except FileNotFoundError:
        raise _refused(word, "does not exist.", _near(path)) from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise _refused(word, f"is no text: {error}.", "Its first line may declare an encoding.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _refused(word, f"cannot be read: {getattr(error, 'strerror', None) or error}.", "") from None
    if not code.strip():
        raise _refused(word, "is empty.", "")
    return code


def base_name(word: str, kind: str) -> str:
    """Name a job after its script; after its kind where the script's name has no letter that a job's may have."""
    return slug(Path(word).stem)[:_LONGEST].strip("-") or kind


def _refused(word: str, sentence: str, cure: str) -> ValidationError:
    return ValidationError(f"SCRIPT: {word} {sentence}", field="source", value=word, cure=cure)


def _near(path: Path) -> str:
    try:
        beside = [found.name for found in path.parent.iterdir() if found.suffix == ".py"]
    except OSError:
        return f"There is no folder {path.parent}."
    return nearest(path.name, beside) or f"It was looked for in {path.parent.absolute()}."
