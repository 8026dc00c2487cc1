"""``jupyter smx …``: the subcommands of ``%smx`` in a terminal."""

from __future__ import annotations

import sys

from jupyter_smx.kernel import commands, standby
from jupyter_smx.kernel.failures import StillRunning
from jupyter_smx.model.errors import SmxError, ValidationError

PROG = "jupyter smx"
_INTERRUPTED = 130
_WRONG_USE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; gives the exit code: 0, 1 for a refusal, 2 for wrong use, 130 for Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    client = standby.client()
    try:
        commands.run(words, commands.Desk(client, _print, _same, PROG))
    except (StillRunning, KeyboardInterrupt) as interrupt:
        print(interrupt, file=sys.stderr)  # noqa: T201 - a command's output
        return _INTERRUPTED
    except SmxError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's output
        return _WRONG_USE if isinstance(error, ValidationError) else 1
    except BrokenPipeError:  # the reader of a pipe has what it wanted
        sys.stderr.close()
        return 0
    finally:
        client.close()
    return 0


def _print(text: str, html: str) -> None:
    del html  # a terminal shows text
    print(text)  # noqa: T201 - a command's output


def _same(word: str) -> str:
    return word


if __name__ == "__main__":
    sys.exit(main())
