"""Decide the next step of a job or cluster and its outcome: transitions, retries, spot, keep-alive, dependencies.

Key functions: ``next_job_step`` and ``next_cluster_step`` in ``next_step``.
"""
