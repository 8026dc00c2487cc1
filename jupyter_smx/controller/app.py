"""The controller as a program: its configuration, its single instance, and the message if it cannot start."""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import signal
import sys
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_config_path
from msgspec import convert
from msgspec.structs import replace
from traitlets import Dict, Enum, Float, Int, List, Unicode, default
from traitlets.config import Application

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller.singleton import DataFolderSocket, protect_from_cleaners
from jupyter_smx.data_folder.singleton_lock import SingletonLock
from jupyter_smx.engines import registry
from jupyter_smx.engines.machine import resources
from jupyter_smx.model.errors import SmxError, UnavailableError, ValidationError
from jupyter_smx.model.spec.instance import Catalogue, InstanceType, catalogue, read_catalogue
from jupyter_smx.policy.limits import HARD_KEEP_ALIVE, Limits
from jupyter_smx.policy.preload import EXCLUDED_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.base import Engine

_DAY = 86_400
_LOCK_TIMEOUT = 5.0
"""Seconds in which the controller that holds the lock must listen or exit."""
_CLOSE_TIMEOUT = 2.0
"""Seconds that engines may take to close; the next controller waits for the lock meanwhile."""
_log = logging.getLogger(__name__)


class ControllerApp(Application):
    """Runs the jobs of one user.

    Traits are set in ``jupyter_smx_config.py`` in one of Jupyter's configuration folders, as
    ``c.ControllerApp.keep_alive_cap = 1800``.
    """

    name = "jupyter-smx-controller"
    description = "The process that runs notebook cells as jobs; starts on demand and exits when idle."
    raise_config_file_errors = True

    config_name = Unicode("jupyter_smx_config", help="Name of the configuration file, without .py or .json.")
    allowed_instance_types = List(
        Unicode(), help="Instance types that jobs may use; empty allows every type of the catalogue."
    ).tag(config=True)
    allowed_engines = List(Unicode(), help="Engines that jobs may run on; empty allows all that are installed.").tag(
        config=True
    )
    keep_alive_cap = Int(
        3_600,
        min=0,
        max=HARD_KEEP_ALIVE,
        help="Seconds; the longest keep-alive that a job or an extension may set.",
    ).tag(config=True)
    max_keep_alive_chain = Int(
        28 * _DAY, min=0, help="Seconds from the start of a pool's hosts after which no job can extend the pool."
    ).tag(config=True)
    max_run_cap = Int(28 * _DAY, min=1, help="Seconds; the longest max_run that a job may set.").tag(config=True)
    max_jobs_running = Int(
        None,
        min=1,
        allow_none=True,
        help="Jobs that may have hosts at the same time; None means that only capacity limits them.",
    ).tag(config=True)
    max_jobs_queued = Int(10_000, min=1, help="Jobs that may be unfinished at the same time.").tag(config=True)
    warm_pool_quota = Dict(
        value_trait=Int(min=0),
        key_trait=Unicode(),
        help=(
            "Instances that may be kept warm by a keep-alive, by instance type; '*' is for all other types. "
            "Hosts that pass from one array task to the next are not counted."
        ),
    ).tag(config=True)
    max_hosts = Int(8, min=1, help="Hosts on this machine at the same time, for engines that share it.").tag(
        config=True
    )
    cpus = Int(min=1, help="CPUs of this machine that hosts may share; by default what this process may use.").tag(
        config=True
    )
    memory_gib = Float(
        min=0.1, help="GiB of memory that hosts of this machine may share; by default what this process may use."
    ).tag(config=True)
    gpus = Int(min=0, help="GPUs of this machine that hosts may share; by default those that are visible.").tag(
        config=True
    )
    grace = Float(120.0, min=0.0, help="Seconds between SIGTERM and SIGKILL when a job is stopped.").tag(config=True)
    interruption_grace = Float(
        120.0,
        min=0.0,
        help=(
            "Seconds between SIGTERM and SIGKILL when a spot job's hosts are reclaimed; 0 reclaims them "
            "without a warning."
        ),
    ).tag(config=True)
    unreachable_limit = Float(
        300.0,
        min=1.0,
        help="Seconds for which an agent may be unreachable while its engine reports its host as present.",
    ).tag(config=True)
    keep_uncollected = Float(
        86_400.0,
        min=0.0,
        help=(
            "Seconds for which an agent on another machine keeps a finished job's results after the end of its host, "
            "until the controller has read them. The agent is then a small process; its CPUs and GPUs are free."
        ),
    ).tag(config=True)
    launch_limit = Float(300.0, min=1.0, help="Seconds that an engine may take to launch hosts.").tag(config=True)
    environment_limit = Float(
        1_800.0, min=1.0, help="Seconds that pip or uv may take to build the environment of a --requirements file."
    ).tag(config=True)
    environments_kept = Int(20, min=0, help="Number of unused environments of requirements to keep.").tag(config=True)
    installer = Enum(
        ("auto", "pip"), "auto", help="Installer of requirements: auto is uv if it is installed, else pip."
    ).tag(config=True)
    preload_memory_mib = Int(
        None,
        min=0,
        allow_none=True,
        help=(
            "MiB of memory for the modules that one idle host preloads; by default a sixteenth of memory_gib, "
            "or of the host's own memory if it is on another machine. Above it, the largest modules are not "
            "preloaded. 0 is no limit."
        ),
    ).tag(config=True)
    preload_never = List(
        Unicode(),
        sorted(EXCLUDED_PACKAGES),
        help="Packages that hosts never preload, because a forked process could not use them.",
    ).tag(config=True)
    input_hash_limit_mib = Int(
        1_024,
        min=0,
        help=(
            "MiB of one input above which its provenance digest covers names, sizes and times instead of "
            "content; a sixteenth of it for linked inputs (FastFile). 0 reads no content."
        ),
    ).tag(config=True)
    log_limit_mib = Float(
        1_024.0,
        min=0.0,
        help=(
            "MiB that the log of a job on one host may take on disk. Of a longer log the middle is left out, and "
            "one sentence there says how much. 0 is no limit; otherwise at least 0.0625."
        ),
    ).tag(config=True)
    instance_types_file = Unicode(
        help=(
            "JSON file with a catalogue of instance types that replaces the shipped one: a list of rows as in "
            "instance_types. local stays unless a row has its name. Empty keeps the shipped catalogue."
        ),
    ).tag(config=True)
    instance_types = List(
        Dict(),
        help=(
            "Rows to add to the catalogue; a row replaces the one of the same name: name, vcpus, memory_gib, "
            "gpus, price_per_hour (US dollars), source, hardware_source, options (text by name, for the engine)."
        ),
    ).tag(config=True)
    prices = Dict(
        value_trait=Float(min=0.0), key_trait=Unicode(), help="US dollars per hour that replace those of the catalogue."
    ).tag(config=True)
    idle_exit = Float(
        600.0, min=0.0, help="Seconds without a job, a pool and a client after which the controller exits."
    ).tag(config=True)

    ended_hosts_kept = Float(
        7.0 * _DAY,
        min=0.0,
        help="Seconds for which the folders of ended hosts are kept; files of their jobs are not deleted.",
    ).tag(config=True)
    log_size = Float(10.0, min=0.1, help="MiB of controller.log above which it is renamed to controller.log.1.").tag(
        config=True
    )

    @default("cpus")
    def _default_cpus(self) -> int:
        return resources.detect_machine().cpus

    @default("memory_gib")
    def _default_memory_gib(self) -> float:
        return resources.detect_machine().memory_gib()

    @default("gpus")
    def _default_gpus(self) -> int:
        return resources.detect_machine().gpus

    def configure(self, argv: list[str]) -> None:
        """Read the command line and the configuration files; the command line wins.

        :raises ValidationError: a file cannot be run, or has an unknown name.
        :raises SystemExit: a trait refuses a value; traitlets has printed it.
        """
        try:
            self.parse_command_line(argv)
            said_here = deepcopy(self.config)
            self.load_config_file(self.config_name, path=jupyter_config_path())
        except Exception as error:  # the border to a file of the administrator, which can raise anything
            raise ValidationError(
                f"{self.config_name} cannot be read: {type(error).__name__}: {error}.",
                field="config",
                rule="Its limits apply to every job, so the controller does not start without it.",
                cure="Correct the file; `jupyter --paths` lists its folders.",
            ) from error
        self.update_config(said_here)
        registry.check_config(self.config, type(self), registry.engine_class_names())

    def limits(self) -> Limits:
        """Return the administrator's settings as plain values.

        :raises ValidationError: a row of the catalogue is invalid.
        """
        return Limits(
            catalogue=self._catalogue(),
            instance_types_file=self.instance_types_file,
            allowed_instance_types=tuple(self.allowed_instance_types),
            allowed_engines=tuple(self.allowed_engines),
            keep_alive_cap=self.keep_alive_cap,
            max_keep_alive_chain=self.max_keep_alive_chain,
            max_run_cap=self.max_run_cap,
            max_jobs_running=self.max_jobs_running,
            max_jobs_queued=self.max_jobs_queued,
            warm_pool_quota=dict(self.warm_pool_quota),
            max_hosts=self.max_hosts,
            cpus=self.cpus,
            memory_gib=self.memory_gib,
            gpus=self.gpus,
            grace=self.grace,
            interruption_grace=self.interruption_grace,
            unreachable_limit=self.unreachable_limit,
            keep_uncollected=self.keep_uncollected,
            launch_limit=self.launch_limit,
            preload_memory_mib=self.preload_memory_mib,
            preload_never=tuple(self.preload_never),
            input_hash_limit_mib=self.input_hash_limit_mib,
            log_limit_mib=self.log_limit_mib,
            environment_limit=self.environment_limit,
            environments_kept=self.environments_kept,
            installer=self.installer,
        )

    def _catalogue(self) -> Catalogue:
        try:
            rows = convert(self.instance_types, list[InstanceType])
        except ValueError as error:
            raise ValidationError(f"instance_types: {error}.", field="instance_types") from error
        known = self._whole_catalogue() | {row.name: row for row in rows}
        for name, price in self.prices.items():
            if name not in known:
                raise ValidationError(f"prices: {name!r} is not in the catalogue.", field="prices", value=name)
            known[name] = replace(known[name], price_per_hour=price, source="the administrator")
        return known

    def _whole_catalogue(self) -> Catalogue:
        shipped = catalogue()
        if not self.instance_types_file:
            return shipped
        path = Path(self.instance_types_file).expanduser()
        if not path.is_absolute():
            raise _catalogue_error(path, "it is not an absolute path")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _catalogue_error(path, f"the file cannot be read ({error})") from error
        return {"local": shipped["local"]} | read_catalogue(text, str(path))


def _catalogue_error(path: Path, why: str) -> ValidationError:
    return ValidationError(
        f"instance_types_file: {str(path)!r}: {why}.",
        field="instance_types_file",
        value=path,
        cure="Use an absolute path, or remove c.ControllerApp.instance_types_file.",
    )


class Engines:
    """Engines by name, made when they are first needed and configured as the application is."""

    def __init__(self, app: ControllerApp) -> None:
        self._app = app
        self._engines: dict[str, Engine] = {}

    def __call__(self, name: str) -> Engine:
        """Return the engine of that name.

        :raises ValidationError: no such engine.
        :raises RefusedError: a requirement of it is not installed.
        """
        found = self._engines.get(name)
        if found is None:
            found = self._engines[name] = registry.create(name, parent=self._app)
        return found

    def target_names(self, kind: str) -> Sequence[str]:
        """List names that may follow the colon of ``--engine``. Blocks.

        The engine is created for this call alone, because one without a target may be refused.

        :raises ValidationError: no such engine.
        :raises RefusedError: a requirement of it is not installed.
        """
        return registry.engine_class(kind)(parent=self._app).target_names()

    async def close(self) -> None:
        """Close all engines, side by side; an error of one is logged."""
        named = [(name, asyncio.wait_for(engine.close(), _CLOSE_TIMEOUT)) for name, engine in self._engines.items()]
        ends = await asyncio.gather(*(closing for _, closing in named), return_exceptions=True)
        for (name, _), end in zip(named, ends, strict=True):
            if isinstance(end, Exception):
                _log.warning("engine=%s close failed: %r", name, end)


async def _acquire_lock(lock: SingletonLock) -> bool:
    """Take the lock; return False if another process has it and serves."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _LOCK_TIMEOUT
    while not lock.acquire():
        # Its owner may be about to listen, or about to leave; only in the second case this one is needed.
        if controller_launch.is_listening() or loop.time() > end:
            return False
        await asyncio.sleep(0.02)
    return True


async def serve(app: ControllerApp) -> None:
    """Run the controller of the data folder until it is stopped, or return at once if one runs already.

    :raises SmxError: it cannot start; the text has the reason and the cure.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    controller_launch.ensure_folders()
    folder = controller_launch.locate_data()
    lock = SingletonLock(folder.records / "controller.lock")
    if not await _acquire_lock(lock):
        return
    with ExitStack() as held:
        held.callback(lock.release)
        held.enter_context(protect_from_cleaners(folder.records))
        # Imported by the winner only, so that a second controller costs next to nothing.
        from jupyter_smx.controller.db.store import Store  # noqa: PLC0415
        from jupyter_smx.controller.retention import MIB, RetentionPolicy  # noqa: PLC0415
        from jupyter_smx.controller.server import ControllerServer  # noqa: PLC0415

        engines = Engines(app)
        service = ControllerServer(
            Store.open(folder.records / "smx.sqlite"),
            app.limits(),
            engines,
            {name: partial(engines.target_names, name) for name in registry.installed_engines()},
            folder=folder,
            user=_user(),
            idle_exit=app.idle_exit,
            retention=RetentionPolicy(ended_hosts=app.ended_hosts_kept, log=int(app.log_size * MIB)),
        )
        await service.run(DataFolderSocket(), stop)
        await engines.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that no file names.
        return str(os.getuid())


def _startup_error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(
            UnavailableError(
                f"{controller_launch_errors.format_unusable(error)}.",
                cure="Make it writable and free some space, "
                f"or set {controller_launch.DATA_DIR_VARIABLE} to another folder.",
            )
        )
    return str(error)


def main(argv: list[str] | None = None) -> int:
    """Run the controller; 0 when it left in order or was not needed, 1 with a sentence when it could not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # Alembic logs each step of a migration at INFO.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    app = ControllerApp()
    loop = asyncio.new_event_loop()
    try:
        app.configure(sys.argv[1:] if argv is None else argv)
        loop.run_until_complete(serve(app))
    except (SmxError, OSError) as error:
        sys.stderr.write(f"{_startup_error_text(error)}\n")
        return 1
    finally:
        loop.close()  # and with it the handlers of its signals
    return 0
