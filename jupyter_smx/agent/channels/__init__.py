"""Move data between a job and its sources and destinations: input channels, checkpoints, archives.

Key modules: ``stage_in``, ``fastfile``, ``checkpoint``, ``pack_outputs``. Protocols of stores belong in ``stores``.
"""
