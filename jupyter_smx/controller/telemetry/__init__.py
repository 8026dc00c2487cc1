"""Collect logs, metrics, progress and utilisation of live jobs.

Key classes: ``LogCollector``, ``ProgressTracker``, ``UsageRecorder``. Parsers of log lines belong in
``jupyter_smx.policy.log_parsers``.
"""
