"""SageMaker's script-mode contract, as files, variables, words and sentences."""
