"""Define what users hold: ``Job``, ``JobArray`` and their futures, metrics and costs.

Creation of jobs belongs in ``jupyter_smx.kernel.api``.
"""
