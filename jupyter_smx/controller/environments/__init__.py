"""Build Python environments from requirements, reuse them and evict old ones.

Key class: ``EnvironmentCache`` in ``cache``. Which jobs share an environment is decided in
``jupyter_smx.policy.lifecycle``.
"""
