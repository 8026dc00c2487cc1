"""Compare the variables that preloaded packages read at their import with those that a job changes.

Key functions: ``reads.noting`` and ``changes.readers``. Starting the process that follows from it belongs in
``forkserver``.
"""
