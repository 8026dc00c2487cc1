"""Handle the routes below ``/jupyter-smx/`` and redact what they return.

The table of routes is ``jupyter_smx.model.http_routes``; ``jupyter_smx.server.routes`` makes the handlers from it. Most
routes are passed on to the controller; ``actions`` has the others.
"""
