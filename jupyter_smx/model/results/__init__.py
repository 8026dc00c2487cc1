"""Define what a run left: usage, progress, provenance, bill, advice, reason of the start.

How these are computed belongs in ``jupyter_smx.policy``.
"""
