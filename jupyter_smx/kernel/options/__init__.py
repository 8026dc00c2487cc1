"""Parse magic lines and Python keywords into typed options.

Key modules: ``line_parser``, ``keyword_check`` and ``subcommand_parser``. Turning options into a request belongs in
``jupyter_smx.kernel.request``.
"""
