"""Format records as plain text and HTML pages for cells and terminals.

Widgets and cards belong in ``jupyter_smx.kernel.display``.
"""
