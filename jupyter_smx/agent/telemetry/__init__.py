"""Measure a job's use of CPU, memory, disk and GPUs on its host.

Key class: ``Sampler``. Sums over hosts and time belong in ``jupyter_smx.policy.accounting``.
"""
