"""Provide hosts as containers of a Docker or Podman daemon on this machine.

Key class: ``DockerEngine``. ``daemon`` is the client of the daemon, ``containers`` describes containers,
``images`` resolves and pulls images. Only this package imports Docker's library.
"""
