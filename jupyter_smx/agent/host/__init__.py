"""Manage the state of one host between jobs: configuration, spool, deadline and idle clean-up.

Key class: ``Host``. State of a single job belongs in ``job``.
"""
