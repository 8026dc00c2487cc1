"""Give each host namespaces and mounts of its own, and clean the host between jobs.

Limits of CPU and memory belong in ``resources``.
"""
