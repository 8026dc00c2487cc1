"""All actions of the controller; separate, so that handlers and a test compare them with the table of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.controller.api import (
    array_actions,
    artifact_actions,
    controller_actions,
    job_actions,
    log_actions,
    pool_actions,
)

if TYPE_CHECKING:
    from jupyter_smx.controller.api.base import Actions

MODULES = (job_actions, log_actions, artifact_actions, array_actions, pool_actions, controller_actions)

ACTIONS: Actions = {name: action for module in MODULES for name, action in module.ACTIONS.items()}
