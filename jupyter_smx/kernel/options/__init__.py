"""Parse magic lines and Python keywords into typed options.

Key names: ``TABLE`` and ``Options`` in ``table``, ``parse`` in ``parser``. Turning options into a request belongs in
``jupyter_smx.kernel.request``.
"""
