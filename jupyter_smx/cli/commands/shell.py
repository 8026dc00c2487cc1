"""``shell``: replace this process with a shell on a host of a job or of a pool."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.kernel.subcommands.surface_subcommands import SHELL
from jupyter_smx.model.errors import RefusedError, ValidationError

if TYPE_CHECKING:
    from argparse import Namespace


def _run(found: Namespace, context: CliContext) -> int:
    if bool(found.job) is bool(found.pool):
        given = f"{found.job} and --pool {found.pool}" if found.job else ""
        raise ValidationError(
            f"shell: {given or 'no job or pool'} was given.",
            field="job",
            value=found.job,
            rule="A shell opens on a host of one job or one pool.",
            cure="Use shell JOB, or shell --pool POOL.",
        )
    ask = context.client.pool_shell if found.pool else context.client.shell
    command = ask(found.pool or found.job, found.host)
    if context.output.json:
        context.output.show({"command": command}, shlex.join(command))
        return conventions.SUCCESS
    context.client.close()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the controller's command, for a person
    except OSError as problem:
        raise RefusedError(
            f"shell: {command[0]} cannot be started ({problem.strerror}).",
            field="command",
            value=command[0],
            rule=f"The command is: {shlex.join(command)}",
            cure=f"Install {command[0]}.",
        ) from problem


OPEN_SHELL = TerminalSubcommand(SHELL, _run)
