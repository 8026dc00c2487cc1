"""Compute what Signature Version 4 signs: canonical requests, strings to sign, keys, and signatures of chunks.

Key modules: ``canonical``, ``keys``, ``chunks``. Which requests pass is decided in ``jupyter_smx.aws.signature``.
"""
