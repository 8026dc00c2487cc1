"""What lies between a job and the places of its data: channels, checkpoints, archives."""
