"""Share code between engines of this machine: host folders, processes, control groups, file copies, the agent's zipapp.

Key class: ``HostFolder``. Nothing here names an engine.
"""
