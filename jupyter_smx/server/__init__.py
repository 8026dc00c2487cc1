"""Extend the Jupyter server: authenticate, pass requests on to the controller, relay its events. Keeps no state.

Reaches the controller only by its socket (``connection``). Everything about jobs belongs in
``jupyter_smx.controller``.
"""
