"""Run one job in its own process, from the run request to the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Callable, Dict, List, NoReturn

from jupyter_smx.agent import wire
from jupyter_smx.agent.channels import image_files
from jupyter_smx.agent.code import execute, import_effects, imports, sourcedir, startup_variables
from jupyter_smx.agent.code.environ import job_changes, late_changes
from jupyter_smx.agent.code.environ import reasons as preload_reasons
from jupyter_smx.agent.code.installs import input_files, sent_files, sent_functions
from jupyter_smx.agent.contract import distribution, script, scriptmode, tfconfig
from jupyter_smx.agent.contract import entry_point as entry
from jupyter_smx.agent.contract.hyperparameters import HyperparameterError
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.forkserver import child_protocol, job_modules
from jupyter_smx.agent.forkserver.contract_writer import DISK_WRITER, ContractWriter
from jupyter_smx.agent.paths import HostInfo, output_folders
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.interpreter import clocks
from jupyter_smx.agent.system.processes import process, threads
from jupyter_smx.agent.system.processes.environment import THREAD_VARIABLES, visibility_variables
from jupyter_smx.agent.system.resources import disk, disk_wait

if TYPE_CHECKING:
    import types

    from jupyter_smx.agent.frames import ChildMessage, CompleteSpec

_VARIABLE_RULE = "a name holds no =, neither it nor its value a NUL, and all letters are ones that can be written."

_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
"""Errors of Python for text that is no Python, or is nested too deep: the user's own failure, on every host."""

NAME = "smx-job"
"""Name of the process in the system's lists."""


def _set(variables: Dict[str, str]) -> None:
    """Set the variables of the contract.

    :raises RefusalError: no system has such a variable; on SageMaker the job ends there as well.
    """
    for name, value in variables.items():
        try:
            os.environ[name] = value
        except ValueError as error:  # noqa: PERF203 - the name belongs into the sentence
            raise RefusalError(f"environment: {name!a} cannot be set ({error}); {_VARIABLE_RULE}") from error


def redirect_output(out: int, err: int) -> None:
    """Redirect stdout and stderr to the log, line by line; both are open files of it, each with its own offset."""
    for stream, log in ((1, out), (2, err)):
        os.dup2(log, stream)
        os.close(log)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")


class JobRun:
    """Runs a job in its process."""

    def __init__(
        self,
        sock: socket.socket,
        message: ChildMessage,
        host_info: HostInfo,
        notes: List[str],
        files: ContractWriter = DISK_WRITER,
    ) -> None:
        self.sock = sock
        self._pid, self._sock_stat = os.getpid(), os.fstat(sock.fileno())
        self._can_send = True
        self.files = files
        self.spec: CompleteSpec = message["spec"]
        self.folder = message["folder"]
        self.trees = message.get("trees", "")
        self.target = message.get("target", "")
        self.home = message.get("home", "")
        self.installs = message.get("installs", "")
        self.restarts = message.get("restart", False)
        self.disk_patience = message.get("disk_patience", disk_wait.LIMIT)
        self._disk_wait = disk_wait.DiskWait(self.disk_patience)
        self.late_changes = late_changes.LateChanges()
        self.host_info = host_info
        self.awake = execute.now()
        self.result = execute.RunResult()
        self.result.report["errors"] += notes
        self.result.places = disk.disk_paths(self.host_info, os.environ.get("TMPDIR", "/tmp"), self.folder)  # noqa: S108
        self.code = script.code_folder(self.spec, self.host_info)
        self.main = execute.make_main(os.path.join(self.code, script.script_name(self.spec)))

    def install_code(self) -> None:
        """Put the user's code beside the script, unless that is done already, and let imports look there first."""
        source = self.spec["source_dir"]
        if source and self.trees:
            sourcedir.copy_tree(source, self.trees, self.target)
        if source and script.is_framework_processor(self.spec):
            sourcedir.write_archive(source, self.home, self.target or self.code)
        self.files.make(os.path.dirname(os.path.join(self.code, script.script_name(self.spec))))
        if source and not self.spec["entry_point"]:
            self.spec["script"] = script.free_script_name(self.code, script.script_name(self.spec))
            execute.set_main_file(self.main, os.path.join(self.code, self.spec["script"]))
        folders = script.search_path(self.spec, self.host_info)
        sys.path[:1] = folders
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        # The drivers of SDK 3 leave it as it is; the toolkit puts the code before all else.
        first = [] if script.is_sdk3_driven(self.spec) else [self.code]
        rest = [entry for entry in inherited if entry not in ("", self.host_info.path("code"))]
        os.environ["PYTHONPATH"] = os.pathsep.join([*first, *dict.fromkeys(rest)])
        sourcedir.unload_shadowing_modules(folders)

    def write_contract(self) -> None:
        """Write the files and set the variables of the contract."""
        brings_code = bool(self.spec["source_dir"] or self.spec["entry_point"] or script.is_sdk3_driven(self.spec))
        if brings_code:
            self.install_code()
        if self.host_info.image_files and self.files is DISK_WRITER:
            self._present_image_files()
        self._enter_working_folder()
        for name, text in scriptmode.config_files(self.spec, self.host_info).items():
            self.files.write(self.host_info.path(name), text)
        if self._writes_source():
            self.files.write(str(self.main.__file__), self.spec["source"])
        for _name, path in output_folders(self.spec, self.host_info):
            self.files.make(path)
        environment = self.spec["environment"]
        os.environ.update(visibility_variables(self.spec["gpus"], os.environ))
        inherited = {name: os.environ[name] for name in environment if name in os.environ}
        self.variables = scriptmode.variables(self.spec, self.host_info)
        _set(self.variables)
        image_files.replace_program(self.spec, self.code, script.script_name(self.spec))
        if environment:
            code = [] if script.is_sdk3_driven(self.spec) else [self.code]
            at = len(script.search_path(self.spec, self.host_info)) if brings_code else 1
            self.result.report["errors"] += startup_variables.apply_variables(environment, inherited, at, code)
        wanted = environment.get("OMP_NUM_THREADS", "")
        if wanted.isdecimal():
            threads.limit(int(wanted))
            os.environ.update({name: environment[name] for name in THREAD_VARIABLES if name in environment})
        execute.set_argv(script.argv(self.spec, self.host_info))

    def _enter_working_folder(self) -> None:
        """Change to the folder in which the code starts.

        :raises RefusalError: it is the image's, and the job's user cannot enter it.
        """
        folder = script.working_folder(self.spec, self.host_info)
        try:
            self.files.enter(folder)
        except OSError as error:
            if not self.spec.get("image_workdir"):
                raise
            raise RefusalError(
                f"workdir: the job cannot start in {folder}, the working folder of the image ({error.strerror}). Its "
                "user has to be allowed to enter it, as with --user image."
            ) from error

    def _present_image_files(self) -> None:
        """Show what the image has in ``/opt/ml``; imports find what is new in the folder of the code."""
        image_files.present(self.spec, self.host_info)
        for path in [path for path in sys.path_importer_cache if path.startswith(self.host_info.base)]:
            del sys.path_importer_cache[path]

    def _writes_source(self) -> bool:
        """Return True if the request has the script, and it did not come with the folder of code."""
        if not self.spec["entry_point"]:
            return not self.spec["command"]
        return not self.spec["source_dir"]

    def first_line(self) -> None:
        """Report to the agent that the user's code begins now: the moment of waking, and this one."""
        with contextlib.suppress(OSError):
            self.sock.send(child_protocol.FIRST_LINE.pack(child_protocol.FIRST_LINE_TAG, self.awake, execute.now()))

    def prepare(self) -> None:
        """Prepare all that the code needs; start a new interpreter if this one has other packages."""
        self.write_contract()
        self._give_up_preloads()
        has_other = bool(self.spec["requirements"]) and self._install_requirements()
        python = self._make_environment()
        if has_other or self.restarts or python:
            message: ChildMessage = {
                "spec": self.spec,
                "folder": self.folder,
                "restart": False,
                "disk_patience": self.disk_patience,
            }
            state = {"message": message, "place": self.host_info._asdict(), "notes": self.result.report["errors"]}
            state.update(awake=self.awake, missing_preloads=self.result.report["missing_preloads"])
            with imports.agent_modules():
                from jupyter_smx.agent.forkserver import reexec  # noqa: PLC0415 - as in job_modules

            reexec.exec_interpreter(self.sock, state, python)
        self.late_changes = late_changes.LateChanges()
        imports.wrap_asked(self.late_changes.around)

    def _install_requirements(self) -> bool:
        """Install the job's requirements; True if this process has imported another version of one of them."""
        with imports.agent_modules():
            from jupyter_smx.agent.code.requirements import install  # noqa: PLC0415 - as in job_modules

        return install.install(self.spec, self.host_info, self.code)

    def _make_environment(self) -> str:
        """Create an environment if the job's code installs packages; return its Python if the code must run with it.

        Code that is a program finds that Python by environment variables.
        """
        command = self.installs or self._install_in_sent_code()
        if not command:
            return ""
        with imports.agent_modules():
            from jupyter_smx.agent.code.installs import job_venv  # noqa: PLC0415 - most jobs install nothing

        python = job_venv.enter(self.host_info.path(job_venv.FOLDER), self.spec["environment"], command)
        return "" if entry.entry_kind(self.spec, self.code) == entry.COMMAND else python

    def _install_in_sent_code(self) -> str:
        """Return the command by which code sent with the script installs packages; record that preloads are lost."""
        command = sent_functions.install_in(self.spec)
        if self.home and not command:
            command = sent_files.install_in(self.home, self.code, self.spec)
        if script.is_only_command(self.spec) and not command:
            command = input_files.install_in(self.spec, self.host_info)
        if command and not job_changes.shares_paths(self.spec, self.host_info):
            return ""
        if command and not self.restarts and entry.entry_kind(self.spec, self.code) != entry.COMMAND:
            missing: Dict[str, List[str]] = self.result.report["missing_preloads"]
            missing["modules"] = sorted({*missing["modules"], *imports.watched_packages()})
            missing["reasons"].append(preload_reasons.format_installs(command))
        return command

    def _give_up_preloads(self) -> None:
        """Restart Python if a preload read what the contract sets; the agent has compared what else the job changes."""
        if entry.entry_kind(self.spec, self.code) == entry.COMMAND:
            return
        readers = late_changes.contract_readers(self.variables)
        if readers and not self.restarts:
            self.restarts = True
            self.result.report["missing_preloads"] = {
                "modules": sorted(readers),
                "reasons": [*preload_reasons.format_left_out(readers, []), preload_reasons.NEW_INTERPRETER],
                "variables": sorted({name for names in readers.values() for name in names}),
            }

    def _can_prepare(self, make_ready: Callable[[], None]) -> bool:
        """Prepare what the code needs, with the notebook's variables; if that fails, report it and return False."""
        try:
            make_ready()
            for packed in (self.spec.get("shared"), self.spec["send"]):
                self.main.__dict__.update(execute.unpack(packed))
        except (RefusalError, HyperparameterError) as refusal:
            self.result.refuse(str(refusal))
        except entry.InstallError as error:
            self.result.fail_with_message(str(error))
        except OSError as error:
            self.result.refuse(
                f"host: the job's files cannot be written: {disk.format_error(error, self.result.places)}"
            )
        except BaseException as error:  # noqa: BLE001 - border: unpacking runs user code, which may raise anything
            self.result.refuse_unexpected(error, str(self.main.__file__))
        else:
            return True
        return False

    def run(self, make_ready: Callable[[], None]) -> int:
        """Run the job and write its report; return the exit code."""
        clocks.restart()
        if self._can_prepare(make_ready) and self._start_parameter_server():
            self._begin()
        full = execute.finalize_interpreter()
        if full is not None:
            said = f"log: the last lines are lost: {disk.format_error(full, self.result.places)}"
            self.result.report["errors"].append(said)
        try:
            self._report()
            execute.clear_modules([self.main, *imports.modules_below(self.code)])
            if full is None:  # else it would take the room that is reserved for the record
                execute.flush()
        except BaseException:  # noqa: BLE001 - the user's code may have removed something that this needs
            with contextlib.suppress(BaseException):
                traceback.print_exc()
        return self.result.exit_code

    def _start_parameter_server(self) -> bool:
        """Start what has to work beside the code; True in the process that runs the code."""
        found = distribution.host_distribution(self.spec, self.host_info)
        if found is None or found.runner != tfconfig.PARAMETER_SERVER:
            return True
        with imports.agent_modules():
            from jupyter_smx.agent.launchers import parameter_server  # noqa: PLC0415 - as in job_modules

        asked = bool(self.spec["distribution"])
        return parameter_server.run_with_server(found.hosts, self.host_info, self.result, asked=asked)

    def _begin(self) -> None:
        how = entry.entry_kind(self.spec, self.code)
        try:
            if how == entry.COMMAND:
                self._exec_program()
            elif how == entry.PACKAGE and self._install():
                self._run_module()
            else:
                self._execute()
        except entry.InstallError as error:
            self.result.fail_with_message(str(error))

    def _exec_program(self) -> None:
        """Replace this process by the user's program; return only if that fails."""
        if self.spec["command"][:1] == [""]:
            self.result.refuse(entry.NO_PROGRAM)
            return
        words = entry.shell_command(self.spec, self.host_info)
        self._report()  # before exec: a program reports nothing
        execute.flush()
        self.first_line()
        try:
            entry.exec_program(words, "" if self.spec["command"] else str(self.main.__file__))
        except OSError as error:
            field = "command" if self.spec["command"] else "entry_point"
            program = self.spec["command"][0] if self.spec["command"] else self.spec["entry_point"]
            why = entry.start_failure(words[0], error)
            self.result.refuse(f"{field}: {program} cannot be started ({why}).")

    def _install(self) -> bool:
        """Install the user's package; False where SageMaker would run its script as it is, and that is left."""
        try:
            entry.install(self.code, self.host_info.path(entry.PACKAGES))
        except entry.InstallError:
            if not entry.can_run_uninstalled(self.spec, self.code):
                raise
            entry.print_note("the script is run without its package, as SageMaker does.")
            return False
        return True

    def _run_module(self) -> None:
        """Run the entry point as ``python -m`` does."""
        self.first_line()  # to find a module runs the packages that it lies in
        try:
            code = entry.load_module(entry.module_name(self.spec, self.code), self.main)
        except BaseException as error:  # noqa: BLE001 - border: the user's code
            self.result.fail(error, str(self.main.__file__))
            return
        sys.argv[0] = code.co_filename
        self._run(code, lambda: None)

    def _execute(self) -> None:
        # The cell is also in a file, since libraries open a function's file, as numba does for its cache. Tracebacks
        # show the name from the notebook.
        filename = str(self.main.__file__)
        self.result.cell = "" if self.spec["entry_point"] else self.spec["filename"]
        try:
            code = execute.load(self.spec["source"], filename, self.main)
        except _NO_CODE as error:
            self.result.fail(error, filename)
            return
        self._run(code, self.first_line)

    def _run(self, code: types.CodeType, first_line: Callable[[], None]) -> None:
        found = distribution.launcher_distribution(self.spec, self.host_info)
        if found is None or (found.runner == "pyspark" and self._join_spark_cluster(found)):
            execute.execute(code, self.main, first_line, self.result)
            if found is not None:
                with imports.agent_modules():
                    from jupyter_smx.agent.launchers import spark  # noqa: PLC0415 - as in job_modules

                spark.add_worker_exception(self.result.report)
        elif found.runner == "pyspark":
            return
        else:
            self._run_ranks(found, code)
        names: List[str] = self.spec["receive"]
        if names:
            path = os.path.join(self.folder, host_layout.ARTIFACTS, host_layout.RESULT)
            execute.collect(names, self.main, path, self.result, self._write_patiently)
            with contextlib.suppress(OSError):  # a disk that failed for so long is tried again at the very end
                self._write_report()  # an exit handler may leave at once

    def _join_spark_cluster(self, found: distribution.Distribution) -> bool:
        """Do this host's part of a Spark cluster; True in the process that runs the script."""
        with imports.agent_modules():
            from jupyter_smx.agent.launchers import spark  # noqa: PLC0415 - as in job_modules

        try:
            return spark.run_host_part(spark.HostPart(found, self.spec, self.host_info, self.folder, self.first_line))
        except RefusalError as refusal:
            self.result.refuse(str(refusal))
        except spark.ClusterError as broken:
            self.result.fail_with_message(str(broken))
        except OSError as error:
            self.result.fail_with_message(f"There is no Spark cluster: {disk.format_error(error, self.result.places)}")
        return False

    def _interpreter_arguments(self) -> List[str]:
        """Return the arguments for a new interpreter: the script, or the module of its package."""
        spec = self.main.__spec__
        return sys.argv if spec is None else ["-m", spec.name, *sys.argv[1:]]

    def _run_ranks(self, found: distribution.Distribution, code: types.CodeType) -> None:
        """Run the code in several processes, by the launcher that the distribution names."""
        with imports.agent_modules():
            from jupyter_smx.agent.launchers import mpi, torchrun  # noqa: PLC0415 - as in job_modules

        try:
            if found.runner == "mpi":
                words = self._interpreter_arguments()
                self.result.exit_code = mpi.run(
                    found, self.host_info, words, self.folder, self.first_line, self.spec["key"]
                )
            else:
                ranks = torchrun.Ranks(code, self.main, self.result, self.folder)
                torchrun.launch(
                    distribution.torchrun_arguments(found, self.host_info), sys.argv, ranks, self.first_line
                )
        except RefusalError as refusal:
            self.result.refuse(str(refusal))
        except Exception as error:  # noqa: BLE001 - border: the launcher's own code, and its errors for signals
            self.result.fail(error, code.co_filename)

    def _report(self) -> None:
        self.result.rename_traceback_files(self.code, self.spec["folder"])
        self.result.report["missing_preloads"]["reasons"] += preload_reasons.format_late(self.late_changes.readers)
        self.result.report["imported"] = self.result.report["imported"] or imports.imports_by_folder()
        self._write_report()

    def _write_report(self) -> None:
        """Send the report to the agent; write it to a file if the job broke the socket, or forked this process.

        All later reports follow the first one into the file, so that the newest is there.
        """
        self.result.report["pid"] = os.getpid()
        # The job may have closed the socket and opened its own with that number, or replaced methods of sockets.
        with contextlib.suppress(Exception):
            is_ours = self._can_send and os.getpid() == self._pid
            if is_ours and os.path.samestat(os.fstat(self.sock.fileno()), self._sock_stat):
                self.sock.sendall(wire.encode({child_protocol.REPORT: self.result.report}))
                return
        self._can_send = False
        path, text = os.path.join(self.folder, host_layout.REPORT), json.dumps(self.result.report)
        self._write_patiently(lambda: disk.write_whole(path, text, os.path.dirname(self.folder)))

    def _write_patiently(self, write: Callable[[], None]) -> None:
        disk_wait.write_patiently(write, self._disk_wait, self._announce_disk_wait)

    def _announce_disk_wait(self, number: int) -> None:
        with contextlib.suppress(OSError):
            self.sock.send(child_protocol.DISK_WAIT.pack(child_protocol.DISK_WAIT_TAG, number))


def run_and_exit(sock: socket.socket, live: Callable[[], int]) -> NoReturn:
    """Exit this process with the exit code of the job."""
    code, born = child_protocol.EXIT_NOT_READY, os.getpid()
    try:
        code = live()
        if os.getpid() == born:  # a script that was forked beside what serves it is not all of the job
            with contextlib.suppress(OSError):
                sock.send(child_protocol.CODE_EXIT.pack(child_protocol.CODE_EXIT_TAG, code & 0xFF, sum(os.times()[:4])))
    except BaseException:  # noqa: BLE001 - border: whatever happens, this process must not go on as a second zygote
        traceback.print_exc()
        execute.flush()
    finally:
        os._exit(code)


def resume(words: List[str]) -> NoReturn:
    """Continue a job in the new interpreter that :meth:`JobRun.prepare` started."""
    sock = socket.socket(fileno=int(words[0]))

    def begin() -> int:
        job_modules.load_all()
        from jupyter_smx.agent.forkserver import reexec  # noqa: PLC0415 - as in job_modules

        state = reexec.restore_state(sock, int(words[1]))
        redirect_output(os.dup(1), os.dup(2))
        job = JobRun(sock, state["message"], HostInfo(**state["place"]), state["notes"])
        job.awake = state["awake"]
        job.result.report["missing_preloads"] = state["missing_preloads"]
        imports.hide_agent_modules()
        import_effects.begin_job()
        return job.run(lambda: execute.set_argv(script.argv(job.spec, job.host_info)))

    process.set_name(NAME)
    run_and_exit(sock, begin)
