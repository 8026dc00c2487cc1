"""Open, walk and remove files and folders that a job may have changed in any way.

Code here does not recurse, follow links or block on pipes. Formats of the agent's own files do not belong here.
"""
