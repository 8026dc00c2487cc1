"""Run one job on one host, from its inputs to its end record.

Key class: ``Job``, whose shutdown is one visible sequence of steps. Starting processes belongs in ``forkserver``,
data copies in ``channels``.
"""
