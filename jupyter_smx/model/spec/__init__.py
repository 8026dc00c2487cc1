"""Define what a user asks for: ``JobSpec``, channels, instances, distribution, arrays, metrics.

Parsing of options belongs in ``jupyter_smx.kernel.options``.
"""
