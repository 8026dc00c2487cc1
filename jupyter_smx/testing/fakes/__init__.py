"""Fake hosts and engines that tests control.

Key classes: ``FakeWorld``, ``FakeEngine`` and ``Fault``; each fault is named after the failure that it causes.
"""
