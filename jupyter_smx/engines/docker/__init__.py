"""Provide hosts as containers of a Docker or Podman daemon on this machine.

Key class: ``DockerEngine``. ``daemon`` speaks to the daemon, ``containers`` says what a container is given,
``images`` resolves and pulls images. Only this package imports Docker's library.
"""
