"""Implement ``smx.train``, ``smx.process``, ``smx.map`` and ``@smx.remote``, and the session behind them.

Key classes: ``Session`` and ``Watcher``.
"""
