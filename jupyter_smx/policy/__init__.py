"""Decide about jobs and hosts in pure functions: admission, placement, next steps, outcomes, prices.

No function reads a clock, files or the network. Actions belong in ``jupyter_smx.controller``.
"""
