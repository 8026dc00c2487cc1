"""Extend the Jupyter server: authenticate, forward requests to the controller, relay its events.

Key module: ``connection``, the client of the controller's socket. Job state belongs in
``jupyter_smx.controller``.
"""
