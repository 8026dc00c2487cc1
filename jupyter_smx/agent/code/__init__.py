"""Prepare and execute the user's code on a host: archives, requirements, imports, cells.

Key function: ``execute.execute``. Environment variables of the contract belong in ``contract``.
"""
