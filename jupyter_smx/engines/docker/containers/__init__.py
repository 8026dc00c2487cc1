"""Describe the container of a host: mounts, limits, GPUs, isolation and folders.

Key class: ``ContainerPlan``. Creation of containers belongs in ``jupyter_smx.engines.docker.launch``.
"""
