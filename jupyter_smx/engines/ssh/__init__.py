"""Reach other machines by the system's ``ssh``: one master connection for each machine.

Key class: ``SshConnection`` in ``connection``, which has the sessions and streams over a ``Master``. ``commands``
builds argument lists and ``failures`` turns what ssh prints into errors; both are pure.
"""
