"""Open, walk and remove files and folders that a job may have changed in any way.

No recursion, no followed links, no blocking on pipes.
"""
