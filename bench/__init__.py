"""Figures: ``python -m bench`` prints them, docs/performance.md keeps them."""
