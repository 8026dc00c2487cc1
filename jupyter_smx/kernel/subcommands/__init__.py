"""Declare the subcommands of ``%smx`` and ``jupyter smx`` once: arguments, help, and what each returns.

Key names: ``Subcommand``, ``Result``, ``Surface``, ``TABLE``. How a result is printed belongs in
``jupyter_smx.kernel.magics`` and ``jupyter_smx.cli``.
"""
