"""Answer the operations of S3, each a function from ``S3Call`` to ``S3Answer`` that blocks and runs in a thread.

``routing`` finds the operation of a request; the table of all of them is ``routing.OPERATIONS``.
"""
