"""Provide hosts: the engine port, its registry, and the engines that ship with the package.

Key classes: ``Engine`` in ``base`` and the functions of ``registry``. ``machine`` holds what engines of this
machine share; ``local`` and ``docker`` are engines and do not import each other. Decisions about
jobs and pools belong in ``jupyter_smx.policy``.
"""
