"""Run ``torchrun`` on one host: PyTorch's launcher, with ranks forked from a process that imported it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from jupyter_smx.agent.code import execute, imports
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.system.interpreter import random_generators
from jupyter_smx.agent.system.processes import process, threads

if TYPE_CHECKING:
    import types

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LEADER_PATIENCE = 2.0
_RETRY_DELAY = 0.002


class Ranks:
    """The ranks of one host: the same code in each, and what they report, a file for each in ``folder``."""

    def __init__(self, code: types.CodeType, main: types.ModuleType, result: execute.RunResult, folder: str) -> None:
        self.code = code
        self.main = main
        self.result = result
        self.folder = folder

    def _path(self, rank: int) -> str:
        return os.path.join(self.folder, f"rank-{rank}.json")

    def run_rank(self, first_line: Callable[[], None]) -> None:
        """Run the code as one rank, which PyTorch has described in the variables of this process; raises its exit."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream in (sys.stdout, sys.stderr):
            # Ranks share one log: pieces of lines that are written at once, as PYTHONUNBUFFERED does, would mix.
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        if wanted.isdecimal():
            threads.limit(int(wanted))
        random_generators.reseed()
        local = int(os.environ["LOCAL_RANK"])
        execute.execute(self.code, self.main, first_line if local == 0 else _do_nothing, self.result)
        execute.finalize_interpreter()
        self._report(local)
        execute.clear_modules([self.main, *imports.modules_below(os.path.dirname(str(self.main.__file__)))])
        if self.result.exit_code:
            raise SystemExit(self.result.exit_code)

    def _report(self, rank: int) -> None:
        said = {
            "exception": self.result.report["exception"],
            "exit_text": self.result.report["exit_text"],
            "imported": imports.imports_by_folder() if rank == 0 else {},
        }
        with open(self._path(rank), "w", encoding="utf-8") as file:
            json.dump(said, file)

    def read_report(self, rank: int) -> Dict[str, Any]:
        """Read the report of a rank; {} if it was killed."""
        try:
            with open(self._path(rank), encoding="utf-8") as file:
                found: Dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        os.unlink(self._path(rank))
        return found

    def merge_reports(self, count: int, first: Optional[int]) -> None:
        """Merge the reports of ranks: the exception of the one that failed first, and the leader's imports."""
        found = [self.read_report(rank) for rank in range(count)]
        self.result.report["imported"] = found[0].get("imported") or {}
        if first is not None:
            self.result.report["exception"] = found[first].get("exception")
            self.result.report["exit_text"] = found[first].get("exit_text") or self.result.report["exit_text"]


def _do_nothing() -> None:
    return None


def _pytorch() -> Any:
    try:
        run, api, errors = (
            importlib.import_module(f"torch.distributed.{part}")
            for part in ("run", "launcher.api", "elastic.multiprocessing.errors")
        )
    except ImportError as error:
        raise RefusalError(
            f"distribution: torchrun needs PyTorch, which the job's Python does not have ({error}). "
            "Choose another one with --python, or add torch to --requirements."
        ) from error
    return run, api, errors


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _LEADER_PATIENCE).close()
    except OSError:
        return False
    return True


def _await_leader(host: str, port: int) -> None:
    """Wait until the leading host listens: PyTorch retries a refused connection only after half a second."""
    until = time.monotonic() + _LEADER_PATIENCE
    while not _listens(host, port) and time.monotonic() < until:
        time.sleep(_RETRY_DELAY)


def launch(words: List[str], script: List[str], ranks: Ranks, first_line: Callable[[], None]) -> None:
    """Run ``torchrun`` with these arguments; return when all ranks of all hosts have ended, or one has failed.

    PyTorch's own agent does everything: the rendezvous, the variables of the ranks, their supervision. Only the start
    of a rank is a fork of this process instead of a new interpreter, which would import all modules again.

    :raises RefusalError: there is no PyTorch, or the system cannot safely fork a process that has imported it.
    """
    if not process.LINUX:
        raise RefusalError("distribution: torchrun forks its ranks, which only Linux does safely.")
    run, api, errors = _pytorch()
    asked = run.parse_args([*words, *script])
    if "--master_addr" not in words:
        # As torchrun does alone on one host: a free port, so that two jobs of one machine do not meet.
        asked.rdzv_backend, asked.rdzv_endpoint, asked.rdzv_id = "c10d", "localhost:0", os.urandom(16).hex()
    elif asked.node_rank:
        _await_leader(asked.master_addr, asked.master_port)
    config, _command, _words = run.config_from_args(asked)
    config.start_method = "fork"
    execute.flush()
    first: Optional[int] = None
    try:
        api.elastic_launch(config=config, entrypoint=lambda: ranks.run_rank(first_line))()
    except errors.ChildFailedError as failed:
        sys.stderr.write(f"{failed}\n")
        rank, failure = failed.get_first_failure()
        first = failure.local_rank
        ranks.result.exit_code = 1
        if failure.exitcode < 0:
            with imports.agent_modules():
                from jupyter_smx.agent.contract.log_causes import exit_texts  # noqa: PLC0415 - only a failure needs it

            ranks.result.report["exit_text"] = exit_texts.format_killed_rank(rank, -failure.exitcode)
            ranks.result.report["killed"] = -failure.exitcode
    ranks.merge_reports(config.nproc_per_node, first)
