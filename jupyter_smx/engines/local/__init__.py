"""Provide hosts as processes of this machine.

Key class: ``LocalEngine``. Code that the Docker engine shares belongs in ``jupyter_smx.engines.machine``.
"""
