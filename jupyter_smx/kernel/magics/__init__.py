"""Define ``%%train``, ``%%process`` and ``%smx``, with completion.

Key class: ``SmxMagics``. Everything but reading the line belongs in ``jupyter_smx.kernel.api``.
"""
