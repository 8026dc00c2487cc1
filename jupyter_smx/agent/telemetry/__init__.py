"""What a job uses of its host, measured."""
