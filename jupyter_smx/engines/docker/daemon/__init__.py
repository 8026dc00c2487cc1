"""engines/docker/daemon."""
