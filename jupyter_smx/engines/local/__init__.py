"""Provide hosts as processes of this machine.

Key class: ``LocalEngine``. What the Docker engine needs as well belongs in ``jupyter_smx.engines.machine``.
"""
