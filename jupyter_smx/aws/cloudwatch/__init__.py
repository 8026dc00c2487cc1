"""Answer CloudWatch with the metrics of jobs: values that they printed, and what their hosts used.

A training job has its printed values under the dimension ``TrainingJobName``, and each host of a job its usage under
``Host``, as ``JOB/algo-1``. Key function: ``make_service``.
"""
