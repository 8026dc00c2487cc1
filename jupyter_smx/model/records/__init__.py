"""Define the controller's records: ``Job``, ``Cluster``, ``Event`` and their summaries.

Storage belongs in ``jupyter_smx.controller.db``.
"""
