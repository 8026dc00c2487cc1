"""Provide hosts: the engine port, its registry, and the engines that ship with the package.

Key classes: ``Engine`` in ``base`` and ``EngineRegistry`` in ``registry``. ``machine`` holds what engines of this
machine share; ``local`` and ``docker`` are engines and do not import each other. Which hosts a job needs is decided
in ``jupyter_smx.policy``.
"""
