"""Run the controller: one process per user and machine, which owns the records and carries out decisions of policy.

Packages, top first: ``app``, ``server``, ``api``, ``scheduling``, ``telemetry``, ``transfer`` and ``environments``,
``state``, ``agents``, ``db``. Decisions without input and output belong in ``jupyter_smx.policy``; code that runs on
hosts belongs in ``jupyter_smx.agent``.
Seventeen entries: the process itself (``app``, ``server``, ``singleton``, ``file_watch``, ``clock``) and its packages.
"""
