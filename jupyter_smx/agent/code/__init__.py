"""Prepare and execute the user's code on a host: archives, requirements, imports, cells.

Key function: ``execute.execute``. Environment variables of the contract belong in ``contract``. Sixteen
entries, because each way to bring code or variables is a module of its own.
"""
