"""Draw cards, widgets and comparison pages in a notebook.

Text without a front end belongs in ``jupyter_smx.kernel.text``.
"""
