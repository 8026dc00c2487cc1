"""Connect to a Docker or Podman daemon, send requests, and classify its errors.

Key classes: ``Daemon`` and ``DaemonInfo``. Container settings belong in ``containers``.
"""
