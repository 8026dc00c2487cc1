"""Start one script on several hosts: torchrun, Open MPI, Spark, parameter servers.

Environment variables that scripts read belong in ``contract``.
"""
