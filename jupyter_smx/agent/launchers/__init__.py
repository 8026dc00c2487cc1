"""Start a distributed script on several hosts with torchrun, Open MPI, Spark or parameter servers.

Environment variables that scripts read belong in ``contract``.
"""
