"""Find, signal and wait for processes, and run the agent's single-threaded event loop.

Key classes: ``Loop`` and ``ForkedTask``.
"""
