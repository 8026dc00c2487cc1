"""Define the magics ``%%train``, ``%%process`` and ``%smx``."""

from __future__ import annotations

import re
import time
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand
from msgspec.structs import replace

from jupyter_smx.kernel import front_end
from jupyter_smx.kernel.api.array_session import submit_job_or_array, submit_rerun
from jupyter_smx.kernel.api.functions import wait_with_logs
from jupyter_smx.kernel.api.session import close_session, current_session, get_or_open_session
from jupyter_smx.kernel.client.dependencies import dependency_ids
from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.handles.job_array import JobArray
from jupyter_smx.kernel.logs.cell_log import SETTINGS
from jupyter_smx.kernel.magics import subcommands
from jupyter_smx.kernel.magics.completion import MagicMatcher
from jupyter_smx.kernel.magics.lazy_loading import LazyMatcher, add_body, lead_sdk_to_front, register_add_body
from jupyter_smx.kernel.options.defaults import Defaults
from jupyter_smx.kernel.options.help_pages import manual
from jupyter_smx.kernel.options.line_parser import expand_expressions, parse
from jupyter_smx.kernel.options.line_syntax import (
    join_continuations,
    missing_variable_error,
    resolve,
    restore_braces,
    split,
)
from jupyter_smx.kernel.request import payload
from jupyter_smx.kernel.request.builders import request_from_options
from jupyter_smx.kernel.request.grid import expand_sweep
from jupyter_smx.kernel.request.request import check_identifier
from jupyter_smx.kernel.text.pages import plan_page, text_page
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.request_texts import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.api.session import Session
    from jupyter_smx.kernel.client.array_rerun import ArrayRerun
    from jupyter_smx.model.options.option import Kind
    from jupyter_smx.model.spec.job_spec import JobSpec

_INSERTED = re.compile(r"\{(.+)\}|\$(.+)")
"""A JOB of ``%smx`` that stands in a variable, as IPython's own magics take it; names of jobs have neither mark."""
_Method = TypeVar("_Method", bound="Callable[..., None]")


def _with_short_traceback(method: _Method) -> _Method:
    """Make IPython show our errors as one sentence, without the frames between the user and the rule."""

    @wraps(method)
    def inner(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except SmxError as error:
            if not hasattr(error, "_render_traceback_"):
                lines = [f"{type(error).__name__}: {error}"]
                error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # IPython's hook
            raise

    return inner  # type: ignore[return-value]


@magics_class
class SmxMagics(Magics, Defaults):
    """The magics of one shell, and their defaults."""

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self._session = session
        session.screen.style = self.card
        self.observe(lambda change: setattr(session.screen, "style", change["new"]), "card")
        SETTINGS.limit = self.log_limit
        self.observe(lambda change: setattr(SETTINGS, "limit", change["new"]), "log_limit")

    @no_var_expand
    @line_cell_magic
    @_with_short_traceback
    def train(self, line: str, cell: str = "") -> None:  # noqa: D102 - its docstring is the manual, set below
        self._run("train", line, cell, time.time())

    @no_var_expand
    @line_cell_magic
    @_with_short_traceback
    def process(self, line: str, cell: str = "") -> None:  # noqa: D102 - its docstring is the manual, set below
        self._run("process", line, cell, time.time())

    @no_var_expand
    @line_magic
    @_with_short_traceback
    def smx(self, line: str) -> None:  # noqa: D102 - its docstring is the manual, set below
        session = self._session
        words = [restore_braces(word) for word in split(line)]
        surface = subcommands.NotebookSurface(session.client, self._show, self._resolve_ref, self._submit_rerun)
        subcommands.run(words, surface, self)

    def _run(self, kind: Kind, line: str, cell: str, submitted_at: float) -> None:
        line, code, lines_before = join_continuations(line, cell)
        session = self._session
        options = expand_expressions(parse(kind, line, self.configured_options()), session.namespace)
        if options.flag("help"):
            session.screen.show_page(*text_page(manual(kind)))
            return
        handle = options.text("handle")
        if handle:
            check_identifier(handle, "--as")
        here = session.submission_context()
        request = request_from_options(kind, options, session.namespace, here.folder)
        fixed, grid = expand_sweep(
            request.hyperparameters, options.text("max_concurrent") or None, sweep=options.flag("sweep")
        )
        after = dependency_ids(request.after, session.namespace, session.client)
        request = replace(request, hyperparameters=fixed, after=after)
        spec = request.build_spec(code, lines_before, here, submitted_at)
        variables = payload.select_variables(options.words("send"), session.namespace)
        if options.flag("plan"):
            if not session.client.engine_info(spec.engine).same_paths:
                spec = session.pack(spec, variables, code=request.code_files())
            session.screen.show_page(*plan_page(session.client.plan(spec)))
            return
        waits = self._should_wait(option=options.flag("wait"))
        packed = session.pack(spec, variables, code=request.code_files())
        job = submit_job_or_array(session, packed, grid)
        if handle:
            session.namespace[handle] = job
        if spec.receive and isinstance(job, Job):
            session.schedule_binding(job)
        if waits:
            wait_with_logs(session, job)

    def _submit_rerun(self, request: JobSpec | ArrayRerun, detach: bool) -> None:
        waits = not detach and self._should_wait(option=False)
        job = submit_rerun(self._session, request)
        if waits:
            wait_with_logs(self._session, job)

    def _should_wait(self, *, option: bool) -> bool:
        return front_end.should_wait(
            option=option, setting=front_end.wait_setting(), presence=front_end.interactivity_of(self.shell)
        )

    def _show(self, text: str, html: str) -> None:
        self._session.screen.show_page(text, html)

    def _resolve_ref(self, word: str) -> str:
        """Return the job of a variable with a handle, or of ``{name}`` or ``$name``; without a word, the last job here.

        :raises ValidationError: there is no such variable, or it has no job. An empty name would be another job.
        """
        if not word:
            return self._session.latest_handle.id if self._session.latest_handle else ""
        inserted = _INSERTED.fullmatch(word)
        if not inserted:
            found = self._session.namespace.get(word)
            return found.id if isinstance(found, (Job, JobArray)) else word
        expression = inserted[1] or inserted[2]
        if expression.strip() == VARIABLE and VARIABLE not in self._session.namespace:
            # Options have a placeholder for it, and no job has that for a name.
            raise missing_variable_error(VARIABLE, self._session.namespace, "JOB")
        found = resolve(expression, self._session.namespace, "JOB")
        if isinstance(found, str) and found:
            return found
        if not isinstance(found, (Job, JobArray)):
            # The type alone: the text of a value is the user's code, which may fail, or be long.
            what = "empty" if isinstance(found, str) else f"a {type(found).__name__}"
            raise ValidationError(
                f"JOB: {word} is {what}.",
                field="job",
                value=word,
                rule="JOB is a job handle, or the name or the ID of a job.",
                cure="Name a variable that has one, as %smx why {name}.",
            )
        return found.id


SmxMagics.train.__doc__ = manual("train")
SmxMagics.process.__doc__ = manual("process")
SmxMagics.smx.__doc__ = subcommands.manual()


def load(shell: Any) -> None:
    """Register the magics, their completion, and the binding of received variables between cells."""
    session = get_or_open_session(shell)
    magics = SmxMagics(shell, session)
    shell.register_magics(magics)
    for event in _EVENTS:
        shell.events.register(event, session.on_cell_boundary)
    _remove_matchers(shell, MagicMatcher)
    shell.Completer.custom_matchers.append(MagicMatcher(magics))
    register_add_body(shell)
    lead_sdk_to_front()


def unload(shell: Any) -> None:
    """Take back what :func:`load` registered; jobs go on."""
    session = current_session()
    _remove_matchers(shell, MagicMatcher, LazyMatcher)
    if add_body in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(add_body)
    for event in _EVENTS:
        shell.events.unregister(event, session.on_cell_boundary)
    for kind, names in {"cell": ("train", "process"), "line": ("train", "process", "smx")}.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    close_session()


def _remove_matchers(shell: Any, *kinds: type) -> None:
    matchers = shell.Completer.custom_matchers
    matchers[:] = [one for one in matchers if not isinstance(one, kinds)]


_EVENTS = ("pre_run_cell", "post_run_cell")
