"""Start the agent's processes: ``serve DIR`` runs the agent, ``probe DIR`` tests what it can do on this machine."""

from __future__ import annotations

import gc
import os
import sys

if __package__ in (None, ""):  # run as `python <package folder>`: make the package importable by its own name
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

TYPE_CHECKING = False  # to load `typing` takes a sixth of what an interpreter needs to start
if TYPE_CHECKING:
    from typing import List, Optional


def main(arguments: Optional[List[str]] = None) -> None:
    """Run the process that the first argument names; leaves through ``SystemExit``."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] in (["serve"], ["zygote"]):
        gc.disable()  # all that is loaded now stays: each look for garbage in it is for nothing
    if words[:1] == ["serve"] and len(words) > 1:
        from jupyter_smx.agent import serve  # noqa: PLC0415 - each process loads what it needs

        sys.exit(serve.main(words[1:]))
    if words[:1] == ["probe"] and len(words) > 1:
        from jupyter_smx.agent import startup  # noqa: PLC0415 - each process loads what it needs

        sys.exit(startup.probe(words[1:]))
    if words[:1] == ["remote"] and len(words) > 2:  # noqa: PLR2004 - a verb and a folder
        from jupyter_smx.agent.remote import commands  # noqa: PLC0415 - each process loads what it needs

        sys.exit(commands.main(words[1:]))
    if words[:1] == ["zygote"]:
        from jupyter_smx.agent.forkserver import zygote  # noqa: PLC0415 - each process loads what it needs

        sys.exit(zygote.main(words[1:]))
    if words[:1] == ["spawned"]:
        from jupyter_smx.agent.forkserver import zygote  # noqa: PLC0415 - each process loads what it needs

        sys.exit(zygote.spawned_main(words[1:]))
    if words[:1] == ["reborn"]:
        from jupyter_smx.agent.forkserver import job_process  # noqa: PLC0415 - each process loads what it needs

        job_process.resume(words[1:])
    _run_helper(words)
    sys.stderr.write("usage: python -m jupyter_smx.agent serve DIR [--ready-fd N] [--parent-fd N] | probe DIR\n")
    sys.exit(2)


def _run_helper(words: List[str]) -> None:
    """Run a program that a host, or a launcher on it, starts beside the agent; return if the word names none."""
    if words[:1] == ["courier"]:
        from jupyter_smx.agent.stores import fsspec_worker  # noqa: PLC0415 - each process loads what it needs

        sys.exit(fsspec_worker.main())
    if words[:1] == ["fuse"]:
        from jupyter_smx.agent.stores import fuse_mount  # noqa: PLC0415 - each process loads what it needs

        sys.exit(fuse_mount.run_mount_helper(words[1:]))
    if words[:1] == ["reach"] and len(words) > 4:  # noqa: PLR2004 - a folder, this program, a host and what is run there
        from jupyter_smx.agent.launchers import mpi  # noqa: PLC0415 - each process loads what it needs

        sys.exit(mpi.remote_shell(words[1:]))
    if words[:1] == ["relay"] and len(words) > 2:  # noqa: PLR2004 - a descriptor and a path
        from jupyter_smx.agent.host import socket_relay  # noqa: PLC0415 - each process loads what it needs

        sys.exit(socket_relay.main(words[1:]))
    if words[:1] == ["uv"] and len(words) > 1:
        from jupyter_smx.agent.code.installs import uv_program  # noqa: PLC0415 - each process loads what it needs

        sys.exit(uv_program.main(words[1:]))


if __name__ == "__main__":
    main()
