"""Implement the subcommands of ``jupyter smx``.

Each module declares its ``TerminalSubcommand`` objects; ``jupyter_smx.cli.main`` collects them. Formatting shared with
``%smx`` belongs in ``jupyter_smx.kernel.text``.
"""
