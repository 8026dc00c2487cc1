"""Prepare and execute the user's code on a host: archives, requirements, imports, cells.

Key function: ``execute.execute``. Environment variables of the contract belong in ``contract``. Seventeen entries, as
installations before the code and the code itself share the folders of packages.
"""
