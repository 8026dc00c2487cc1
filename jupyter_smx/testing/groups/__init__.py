"""Define the groups of the engine contract, one module each, and what they measure a loop with.

:mod:`jupyter_smx.testing.contract` combines them.
"""
