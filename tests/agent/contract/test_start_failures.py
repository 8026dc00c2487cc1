"""A program that a shell starts, on a host without one: the sentence names the shell."""

from __future__ import annotations

import errno
import os

from jupyter_smx.agent.contract.entry_point import start_failure

MISSING = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def test_a_host_without_a_shell_is_named_as_the_cause() -> None:
    said = start_failure("/no/such/sh", MISSING)
    assert (
        said == "this host has no /no/such/sh, which starts programs; use an image with a shell, or a script in Python"
    )


def test_another_cause_keeps_its_words() -> None:
    assert start_failure("/bin/sh", OSError(errno.E2BIG, os.strerror(errno.E2BIG))) == "Argument list too long"
    assert start_failure("/bin/sh", OSError("odd")) == "odd"
