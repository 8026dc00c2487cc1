"""Run on each host: one agent per host, copied as one zipapp, with the standard library only (Python 3.8 or newer).

Layers, top first: ``serve``, ``startup``, ``controller_connection``, ``job``, ``host``, ``forkserver``,
``launchers``, ``code``, ``channels``, ``stores``, ``telemetry`` and ``contract``, ``system``. ``wire`` holds the
frames that controller and agent exchange. Decisions about jobs and pools do not belong here: the controller makes
them. About twenty entries, as each is a layer of its own.
"""

__version__ = "0.1.0"
