"""Hold what one host keeps between jobs: its configuration, spool, deadline and idle clean-up.

Key class: ``Host``. What concerns one job only belongs in ``job``.
"""
