"""The Slurm engine: hosts on the nodes of an allocation, which is one batch job for each warm pool.

:mod:`~jupyter_smx.engines.slurm.lifecycle` decides what follows for an allocation, and
:mod:`~jupyter_smx.engines.slurm.engine` does it. :mod:`~jupyter_smx.engines.slurm.commands` and
:mod:`~jupyter_smx.engines.slurm.parsers` are the words and the output of Slurm's programs; both are pure.
"""
