"""Build Python environments from requirements, reuse them and evict old ones.

Key class: ``EnvironmentCache`` in ``cache``. The decision which jobs share an environment
belongs in ``jupyter_smx.policy.lifecycle``.
"""
