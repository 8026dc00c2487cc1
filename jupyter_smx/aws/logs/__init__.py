"""Answer CloudWatch Logs with the logs of jobs: groups, streams, and events with the time of their lines.

A host of a job has one stream, named by the begin of its first run; later runs of the job continue it. Everything
that decides about pages and patterns is a pure function. Key function: ``make_service``.
"""
