"""Define the results of a run: usage, progress, provenance, bill, advice and start reason.

Their computation belongs in ``jupyter_smx.policy``.
"""
