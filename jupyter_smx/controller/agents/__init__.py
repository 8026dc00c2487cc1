"""Keep open streams to the agents of all hosts.

Key classes: ``Agents`` and ``AgentStream``. Handling of their messages belongs in
``jupyter_smx.controller.scheduling``.
"""
