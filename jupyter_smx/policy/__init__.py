"""Decide, in pure functions: admission, placement, next steps, outcomes, prices. No clock, no input, no output.

Carrying out a decision belongs in ``jupyter_smx.controller``.
"""
