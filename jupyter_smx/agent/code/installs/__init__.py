"""Keep the packages that a job's own code installs in the job: find such code, and make an environment for it.

Key functions: ``detection.install_in`` and ``job_venv.activate``. The packages of ``--requirements`` belong in
``requirements``.
"""
