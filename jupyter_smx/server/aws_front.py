"""Start the front for clients of AWS with the server where that is enabled, so that kernels and terminals reach it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tornado.ioloop import IOLoop

from jupyter_smx.aws_endpoint.process import find_front
from jupyter_smx.aws_endpoint.settings import read_settings, words_of
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from logging import Logger

    from traitlets.config import Config

    from jupyter_smx.aws_endpoint.environment import S3Place

AWS_PAGE_OPTION = "smxAws"
"""Option of JupyterLab's pages that has the address of the front if kernels and terminals inherit its variables."""


def running_front_url() -> str:
    """Return the address of the front of this data folder; "" if none runs. A file on a local disk has it."""
    try:
        front = find_front()
    except ImportError:  # Windows lacks the locks of files, and there is no front
        return ""
    return front.url if front else ""


async def lead_clients_to_front(config: Config, log: Logger) -> str:
    """Start the front if ``c.SmxAws.enabled``, and set the variables in this process, whose kernels inherit them.

    Return its address, which pages get; "" where clients reach AWS. A front that does not start leaves them there, and
    the log says so.
    """
    try:
        settings = read_settings(config=config)
        if not settings.enabled:
            return ""
        # Windows lacks the locks of files that it needs, and there nothing is started.
        from jupyter_smx.aws_endpoint import switch  # noqa: PLC0415

        s3: S3Place = "local" if settings.s3 == "local" else "aws"
        words = words_of(settings, (name for name in config.SmxAws if name != "s3"))
        start = partial(switch.plan_on, os.environ, log.info, s3, switch.BACK_IN_A_NOTEBOOK, words)
        plan = await IOLoop.current().run_in_executor(None, start)
    except SmxError as error:
        log.error("Clients of AWS are not led to the front: %s", error)  # noqa: TRY400 - a sentence for a person
        return ""
    switch.lead_children(plan)
    log.info("%s", plan.sentence)
    return plan.url
