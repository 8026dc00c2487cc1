"""Read and follow the logs of a job, host by host.

Key functions: ``follow`` and ``last_lines`` in ``reader``, ``open_cell_log`` in ``cell_log``.
"""
