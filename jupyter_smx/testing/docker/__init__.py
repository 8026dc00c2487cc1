"""Run real Docker and Podman daemons, registries and fake GPUs for tests."""
