"""Answer HTTP requests on the controller's unix socket.

Key classes: ``ControllerFacade`` (all operations), ``SubmissionValidator`` (a JobSpec becomes a Job). Handlers only
translate; they decide nothing.
"""
