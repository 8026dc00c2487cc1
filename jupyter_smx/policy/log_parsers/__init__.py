"""Parse progress and metrics from log lines, with one module per log format.

Key class: ``Reader`` in ``reader``. Reading files belongs in ``jupyter_smx.controller.telemetry``.
"""
