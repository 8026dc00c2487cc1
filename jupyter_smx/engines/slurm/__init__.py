"""The Slurm engine: hosts on the nodes of an allocation, which is one batch job for each warm pool.

The entries fall into three groups. :mod:`~jupyter_smx.engines.slurm.commands` and
:mod:`~jupyter_smx.engines.slurm.parsers` are the words and the output of Slurm's programs, with their reasons, instance
types and submissions; they are pure. :mod:`~jupyter_smx.engines.slurm.lifecycle` decides what follows for a job, and
:mod:`~jupyter_smx.engines.slurm.allocations` does it. The login machine, nodes and the engine are the edge.
"""
