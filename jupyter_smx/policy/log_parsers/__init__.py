"""Read progress and metrics from log lines: one module per dialect, pure, incremental, of constant memory.

Key class: ``FileReader`` in ``reader``. Reading files belongs in ``jupyter_smx.controller.telemetry``.
"""
