"""Answer SageMaker's operations on training and processing jobs with jobs of the controller.

A request becomes a ``JobSpec`` (``requests``), and a record becomes an answer of
Describe or List (``describe``, ``lists``). The request itself is kept beside the records (``request_store``),
since clients read their own members back; a job without one gets them from its record (``record_members``). Key
function: ``make_service``. The folder has sixteen entries, because each kind of job and each step of an answer is a
module of its own.
"""
