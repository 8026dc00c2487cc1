"""Hold live jobs and clusters in memory: the write-through copy, the job queue, the change signal.

Key classes: ``LiveState``, ``JobQueue``, ``JobRuntime``, ``ChangeSignal``. Nothing here waits for hosts.
"""
