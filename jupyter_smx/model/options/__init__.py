"""Declare the options of a job, once for the magics, Python, the command line, the controller and SageMaker's names.

Key names: ``Option``, ``TrainOptions`` and ``ProcessOptions``, ``TABLE``. Parsers of words belong in
``jupyter_smx.kernel.options``; rules that join several options belong in ``jupyter_smx.policy.admission``.
"""
