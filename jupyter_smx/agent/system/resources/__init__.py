"""Read and limit resources of a host: control groups, memory, disks, GPU visibility.

Sampling over time belongs in ``jupyter_smx.agent.telemetry``.
"""
