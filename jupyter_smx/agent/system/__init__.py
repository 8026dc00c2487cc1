"""Wrap the operating system's services that the agent uses, in six packages.

``files`` (folders that jobs write to), ``processes`` (processes and the event loop), ``resources`` (control groups,
memory, disks, GPUs), ``isolation`` (namespaces, mounts, clean-up), ``interpreter`` (what imports leave in it) and
``forwarding`` (ports that lead over the controller's stream). ``archive_importer`` loads the agent's modules. Code
about jobs or SageMaker does not belong here.
"""
