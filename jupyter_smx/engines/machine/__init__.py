"""Share code between engines of this machine: host folders, processes, control groups, file copies, the agent's zipapp.

Key class: ``HostFolder``. Code for a single engine does not belong here.
"""
