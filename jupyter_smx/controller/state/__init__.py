"""Hold live jobs and clusters in memory: the write-through copy, the job queue, the change signal.

Key classes: ``LiveState``, ``JobQueue``, ``JobRuntime``, ``ChangeSignal``. Code that
waits for hosts does not belong here.
"""
