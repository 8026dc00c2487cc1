"""Find the reason of a failure in the end of a job's log, if neither Python nor a failure file has it.

Pure; imported only when a job failed.
"""
