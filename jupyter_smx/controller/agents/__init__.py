"""Keep open streams to the agents of all hosts.

Key classes: ``Agents`` and ``AgentStream``. What a message means for a job belongs in
``jupyter_smx.controller.scheduling``.
"""
