"""engines/docker/images."""
