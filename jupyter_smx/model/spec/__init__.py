"""Define a job request: ``JobSpec``, channels, instances, distribution, arrays and metrics.

Parsing of options belongs in ``jupyter_smx.kernel.options``.
"""
