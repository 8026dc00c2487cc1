"""Wrap the operating system's services that the agent uses, in four packages.

``files`` (folders that jobs write to), ``processes`` (processes and the event loop), ``resources`` (control groups,
memory, disks, GPUs), ``isolation`` (namespaces, mounts, clean-up). ``archive_importer`` loads the agent's
modules. Code about jobs or SageMaker does not belong here.
"""
