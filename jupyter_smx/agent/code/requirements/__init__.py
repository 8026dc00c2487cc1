"""Install the packages of ``--requirements`` in a container before the job's code, and keep them for later jobs.

Key function: ``install.install``. Packages that the code itself installs belong in ``installs``.
"""
