"""What the agent asks of the system: processes, mounts, limits, folders, and how all of it is cleaned."""
