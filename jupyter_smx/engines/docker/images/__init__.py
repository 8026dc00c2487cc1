"""Resolve, inspect and pull images, with progress and registry credentials.

Key classes: ``Images`` and ``Pull``.
"""
