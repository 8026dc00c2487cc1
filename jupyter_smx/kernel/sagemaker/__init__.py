"""kernel/sagemaker."""
