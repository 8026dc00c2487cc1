"""Describe the container of a host: mounts, limits, GPUs, isolation, folders. Mostly pure.

Key class: ``ContainerPlan``. Creation of containers belongs in ``jupyter_smx.engines.docker.launch``.
"""
