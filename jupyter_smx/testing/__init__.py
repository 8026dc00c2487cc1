"""Ship what the author of an engine needs: the contract that every engine passes, fakes, a simulation.

Start with ``contract`` and ``harness``. ``docker``, ``servers`` and ``simulation`` serve this project's own tests.
Seventeen entries: what an engine's author imports stays at the top.
"""
