"""Subcommands that a notebook and a terminal run differently, or that only one of the two has."""

from __future__ import annotations

from jupyter_smx.kernel.subcommands.declaration import Argument, Subcommand

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
KINDS = ("train", "process")

HELP = Subcommand(
    "help",
    "show all subcommands, or the arguments of one",
    None,
    (Argument(name="subcommand", metavar="SUBCOMMAND", help="name of a subcommand", completion="subcommand"),),
)
CONFIG = Subcommand(
    "config",
    "show or set default options for this kernel, e.g. keep_alive=10m",
    None,
    (
        Argument(
            name="assignments",
            metavar="OPTION=VALUE",
            help="option and default; no value removes the default",
            many=True,
        ),
    ),
    only="notebook",
    reason="It sets the defaults of a kernel, and a terminal has none.",
    cure="Type the options after the script, or set c.SmxMagics in ipython_config.py for every kernel.",
)

_SCRIPT_ARGUMENTS = (
    Argument(
        name="script",
        metavar="SCRIPT",
        help="a Python file or a shell script: the code of the job; not with --entry-point",
        completion="file",
    ),
    Argument(
        name="kind",
        spellings=("--kind",),
        metavar="KIND",
        default="train",
        help="train (default) or process",
        choices=KINDS,
    ),
    Argument(name="detach", spellings=("--detach",), help="print the job's name and come back at once"),
)
RUN = Subcommand(
    "run",
    "run a script as a job and show its log",
    None,
    _SCRIPT_ARGUMENTS,
    only="terminal",
    reason="The code of a notebook is in its cells.",
    cure="Start the cell with `%%train` or `%%process`; --entry-point names a script.",
    synopsis="SCRIPT [options]",
)
PLAN = Subcommand(
    "plan",
    "show what would happen and why",
    None,
    _SCRIPT_ARGUMENTS,
    only="terminal",
    reason="The code of a notebook is in its cells.",
    cure="Add --plan to the line of `%%train` or `%%process`.",
    synopsis="SCRIPT [options]",
)
SHELL = Subcommand(
    "shell",
    "open a shell beside the job, or on a warm host",
    None,
    (
        Argument(
            name="job",
            metavar="JOB",
            help="ID, name, or the beginning of one; it runs, or its hosts are warm",
            completion="job",
        ),
        Argument(
            name="pool",
            spellings=("--pool",),
            metavar="POOL",
            help="instead of a job: ID, name, or the beginning of one",
            completion="pool",
        ),
        Argument(name="host", spellings=("--host",), metavar="HOST", help="which one, as algo-2; default the first"),
    ),
    only="terminal",
    reason="A shell needs a terminal.",
    cure="Open a terminal and run `jupyter smx shell JOB`.",
    synopsis="JOB | --pool POOL [--host HOST]",
)
COMPLETION = Subcommand(
    "completion",
    "print the shell completion script",
    None,
    (Argument(name="shell", metavar="SHELL", default="bash", help=", ".join(SHELLS), choices=SHELLS),),
    only="terminal",
    reason="It prints a script for a shell.",
    cure="Press Tab in a cell that begins with `%smx`.",
)
