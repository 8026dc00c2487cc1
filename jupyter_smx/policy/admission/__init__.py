"""Check a job before it is accepted: one module per group of rules.

Key function: ``check`` in ``checks``. Errors name field, value, rule and cure.
"""
