"""Answer HTTP requests on the controller's unix socket.

Key classes: ``ControllerFacade`` (all operations), ``SubmissionValidator`` (a JobSpec becomes a Job), ``ApiHandler`` (a
request). The table of routes is ``jupyter_smx.model.http_routes``; a module that ends with ``_actions`` has functions
for its actions. They only translate; they decide nothing.
"""
