"""The addresses under ``/jupyter-smx/`` and their handlers: one table, apart so that readers find it."""

from __future__ import annotations

from jupyter_smx.server.handlers import arrays, base, jobs, logs, pools

ROUTES: list[tuple[str, type[base.ControllerHandler]]] = [
    (r"/jupyter-smx/controller", jobs.StateHandler),
    (r"/jupyter-smx/jobs", jobs.JobsHandler),
    (r"/jupyter-smx/jobs/([^/]+)", jobs.JobHandler),
    (r"/jupyter-smx/jobs/([^/]+)/(stop|interrupt)", jobs.JobActionHandler),
    (r"/jupyter-smx/jobs/([^/]+)/rerun", jobs.RerunHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs", logs.LogsHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs/search", logs.LogSearchHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs/whole", logs.WholeLogHandler),
    (r"/jupyter-smx/jobs/([^/]+)/(metrics|usage|advice)", jobs.HistoryHandler),
    (r"/jupyter-smx/jobs/([^/]+)/diff", jobs.DifferenceHandler),
    (r"/jupyter-smx/jobs/([^/]+)/places", jobs.FileLocationsHandler),
    (r"/jupyter-smx/jobs/([^/]+)/artifacts/(.+)", jobs.ArtifactHandler),
    (r"/jupyter-smx/arrays", arrays.ArraysHandler),
    (r"/jupyter-smx/arrays/([^/]+)", arrays.ArrayHandler),
    (r"/jupyter-smx/arrays/([^/]+)/stop", arrays.StopArrayHandler),
    (r"/jupyter-smx/pools", pools.PoolsHandler),
    (r"/jupyter-smx/pools/([^/]+)", pools.PoolHandler),
    (r"/jupyter-smx/(jobs|pools)/([^/]+)/shell", pools.ShellHandler),
    (r"/jupyter-smx/changes", jobs.ChangesHandler),
    (r"/jupyter-smx/doctor", jobs.DoctorHandler),
]
