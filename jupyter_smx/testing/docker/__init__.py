"""Run real Docker and Podman daemons, registries and GPU stand-ins for tests."""
