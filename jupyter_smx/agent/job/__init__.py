"""Run one job on one host, from its inputs to the record of its end.

Key class: ``Job``, whose shutdown is one visible sequence of steps. Starting processes belongs in ``forkserver``,
copying of data in ``channels``.
"""
