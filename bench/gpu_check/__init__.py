"""Try jobs on a real GPU, in six minutes at most: ``python -m bench.gpu_check``.

:mod:`bench.gpu_check.checks` runs the jobs, :mod:`bench.gpu_check.verdicts` judges what they print, and
:mod:`bench.gpu_check.report` writes that for people. :mod:`bench.gpu_check.environment` installs without a network.
"""
