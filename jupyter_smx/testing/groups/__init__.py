"""The groups of the contract that every engine passes, one file each; :mod:`jupyter_smx.testing.contract` has all."""
