"""Communicate with the controller: find it, start it on demand, send requests, retry.

Key class: ``Client``. What a request contains belongs in ``jupyter_smx.kernel.request``.
"""
