"""Define the groups of the engine contract, one module each; :mod:`jupyter_smx.testing.contract` combines them."""
