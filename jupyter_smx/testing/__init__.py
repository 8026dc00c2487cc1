"""Test engines: the contract that every engine passes, fakes and a simulation.

Start with ``contract`` and ``harness``. ``docker``, ``servers`` and ``simulation`` serve this project's own tests.
Tests themselves do not belong here. Seventeen entries, because engine authors import the top-level modules.
"""
