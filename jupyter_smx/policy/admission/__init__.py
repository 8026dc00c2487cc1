"""Validate a job request before it is accepted, with one module per group of rules.

Key function: ``check`` in ``checks``. Errors name field, value, rule and cure. Parsing of options belongs
in ``jupyter_smx.kernel.options``.
"""
