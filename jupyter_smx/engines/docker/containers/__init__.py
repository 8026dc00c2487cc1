"""engines/docker/containers."""
