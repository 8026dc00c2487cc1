"""Which function answers which action of the table of routes: one map, so that a test can compare both."""

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
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_smx.controller.api.answer import Answer
    from jupyter_smx.controller.api.base import ApiHandler
    from jupyter_smx.model.http_routes import Action

ACTIONS: Mapping[Action, Callable[[ApiHandler], Answer | Awaitable[Answer]]] = {
    "describe_controller": controller_actions.describe_controller,
    "submit_job": job_actions.submit_job,
    "list_jobs": job_actions.list_jobs,
    "plan_job": job_actions.plan_job,
    "get_job": job_actions.get_job,
    "delete_job": job_actions.delete_job,
    "stop_job": job_actions.stop_job,
    "interrupt_job": job_actions.interrupt_job,
    "rerun_job": job_actions.rerun_job,
    "get_job_shell": job_actions.get_job_shell,
    "read_log": log_actions.read_log,
    "search_log": log_actions.search_log,
    "download_log": log_actions.download_log,
    "get_metrics": job_actions.get_metrics,
    "get_usage": job_actions.get_usage,
    "get_advice": job_actions.get_advice,
    "compare_jobs": job_actions.compare_jobs,
    "download_artifact": artifact_actions.download_artifact,
    "submit_array": array_actions.submit_array,
    "list_arrays": array_actions.list_arrays,
    "get_array": array_actions.get_array,
    "stop_array": array_actions.stop_array,
    "list_pools": pool_actions.list_pools,
    "extend_pool": pool_actions.extend_pool,
    "release_pool": pool_actions.release_pool,
    "get_pool_shell": pool_actions.get_pool_shell,
    "list_instance_types": controller_actions.list_instance_types,
    "list_changes": controller_actions.list_changes,
    "diagnose": controller_actions.diagnose,
    "fix": controller_actions.fix,
}
