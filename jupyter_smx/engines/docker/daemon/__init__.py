"""Find a Docker or Podman daemon, ask it, and read what its answers mean.

Key class: ``Daemon``. What is asked for a container belongs in ``containers``.
"""
