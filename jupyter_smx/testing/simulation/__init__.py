"""Simulate the controller over fake hosts in simulated time, with random histories and invariants.

Key classes: ``Simulation`` and ``ControllerStateMachine``.
"""
