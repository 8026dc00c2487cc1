"""The addresses under ``/jupyter-smx/`` and who answers there."""

from __future__ import annotations

from jupyter_smx.server.handlers import arrays, logs, pools
from jupyter_smx.server.handlers import jobs as handlers

ROUTES: list[tuple[str, type[handlers.ControllerHandler]]] = [
    (r"/jupyter-smx/controller", handlers.StateHandler),
    (r"/jupyter-smx/jobs", handlers.JobsHandler),
    (r"/jupyter-smx/jobs/([^/]+)", handlers.JobHandler),
    (r"/jupyter-smx/jobs/([^/]+)/(stop|interrupt)", handlers.WishHandler),
    (r"/jupyter-smx/jobs/([^/]+)/rerun", handlers.RerunHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs", logs.LogsHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs/search", logs.LogSearchHandler),
    (r"/jupyter-smx/jobs/([^/]+)/logs/whole", logs.WholeLogHandler),
    (r"/jupyter-smx/jobs/([^/]+)/(metrics|usage|advice)", handlers.HistoryHandler),
    (r"/jupyter-smx/jobs/([^/]+)/diff", handlers.DifferenceHandler),
    (r"/jupyter-smx/jobs/([^/]+)/places", handlers.PlacesHandler),
    (r"/jupyter-smx/jobs/([^/]+)/artifacts/(.+)", handlers.ArtifactHandler),
    (r"/jupyter-smx/arrays", arrays.ArraysHandler),
    (r"/jupyter-smx/arrays/([^/]+)", arrays.ArrayHandler),
    (r"/jupyter-smx/arrays/([^/]+)/stop", arrays.StopArrayHandler),
    (r"/jupyter-smx/pools", pools.PoolsHandler),
    (r"/jupyter-smx/pools/([^/]+)", pools.PoolHandler),
    (r"/jupyter-smx/(jobs|pools)/([^/]+)/shell", pools.ShellHandler),
    (r"/jupyter-smx/changes", handlers.ChangesHandler),
    (r"/jupyter-smx/doctor", handlers.DoctorHandler),
]
