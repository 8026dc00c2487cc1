"""Decide which job runs next and where: fair queue, capacity, pool reuse, placement, start estimates.

Key function: ``place`` in ``placement``.
"""
