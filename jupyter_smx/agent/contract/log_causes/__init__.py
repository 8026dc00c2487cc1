"""Find in the end of a job's log why its code failed, where neither Python nor a failure file says it.

Pure; imported only when a job failed.
"""
