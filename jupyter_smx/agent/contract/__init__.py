"""Implement SageMaker's script-mode contract: files, environment variables, command lines and failure messages.

Pure except for the writing of configuration files. Nothing here starts a process.
"""
