"""Store records in SQLite: jobs, arrays, clusters, events.

Key class: ``Store``. Schema changes are migrations in ``migrations``. The in-memory copy belongs in
``jupyter_smx.controller.state``.
"""
