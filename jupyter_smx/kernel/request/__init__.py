"""Build the job request: code, source folder, interpreter, requirements, variables, grid.

Key class: ``JobRequest``. Checks that need the controller's limits belong in ``jupyter_smx.policy.admission``.
It has 19 entries, because each option that brings code or data has a module of its own.
"""
