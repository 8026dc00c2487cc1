"""Handle the routes below ``/jupyter-smx/`` and redact what they return.

Which handler serves which route stands in ``jupyter_smx.server.routes``.
"""
