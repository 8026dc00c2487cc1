"""Name hosts, divide inputs among them, and validate the messages of their agents.

Key modules: ``names`` and ``agent_messages``. Connections belong in ``jupyter_smx.controller.agents``.
"""
