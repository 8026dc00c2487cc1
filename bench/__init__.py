"""Figures: ``python -m bench`` prints them, docs/performance.md keeps them.

Its entries are the parts that the command names, and what they share.
"""
