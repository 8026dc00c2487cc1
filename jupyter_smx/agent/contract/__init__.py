"""Implement SageMaker's script-mode contract: files, environment variables, command lines and failure messages.

Key modules: ``scriptmode`` and ``failure``. Functions are pure, except those that write configuration files. Code that
starts processes belongs in ``launchers`` and ``forkserver``.
"""
