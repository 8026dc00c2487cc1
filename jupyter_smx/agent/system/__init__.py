"""Wrap what the agent asks of the operating system, in four packages.

``files`` (folders that jobs write to), ``processes`` (processes and the event loop), ``resources`` (control groups,
memory, disks, GPUs), ``isolation`` (namespaces, mounts, clean-up). Jobs and SageMaker do not occur here.
"""
