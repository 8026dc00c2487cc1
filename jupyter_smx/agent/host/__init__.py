"""Manage the state of one host between jobs: configuration, spool, deadline and idle clean-up.

Key class: ``Host``. State of a single job belongs in ``job``. What serves all jobs of a host beside its agent starts
here, too: ``aws_front`` starts ``socket_relay``. The folder has sixteen entries, because each part of a host's state is
a module of its own.
"""
