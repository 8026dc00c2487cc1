"""Answer HTTP requests on the controller's unix socket.

Key classes: ``ControllerFacade`` (all operations), ``SubmissionValidator`` (a JobSpec becomes a Job), ``ApiHandler`` (a
request). The table of routes is ``jupyter_smx.model.http_routes``; ``actions`` maps each of its actions to a function.
Actions only translate; they decide nothing.
"""
