"""Measure what a job uses of its host: CPU, memory, disk and GPUs.

Key class: ``Sampler``. Sums over hosts and time belong in ``jupyter_smx.policy.accounting``.
"""
