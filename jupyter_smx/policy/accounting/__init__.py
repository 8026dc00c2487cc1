"""Compute prices, utilisation and profiler advice from records.

Key functions: ``bill`` in ``price``, ``advise`` in ``profiler_rules``. Collection of samples belongs in
``jupyter_smx.controller.telemetry``.
"""
