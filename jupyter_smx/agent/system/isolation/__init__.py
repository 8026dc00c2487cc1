"""Create separate namespaces and mounts for each host, and clean the host between jobs.

Limits of CPU and memory belong in ``resources``.
"""
