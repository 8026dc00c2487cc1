"""Resolve, inspect and pull images, with progress and registry credentials.

Key classes: ``Images`` and ``ImagePuller``. Creation of containers belongs in ``jupyter_smx.engines.docker.launch``.
"""
