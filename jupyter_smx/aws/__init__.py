"""Answer the clients of Amazon SageMaker with jobs of this controller.

A process of its own listens on loopback, checks signatures (SigV4), and serves SageMaker, CloudWatch Logs, CloudWatch,
STS, IAM and S3. It keeps no state besides its key and the requests of jobs; jobs are the controller's. Key classes:
``Service`` and ``AwsError``. ``front`` gives each request to its service, ``protocol`` reads and writes its form.
The folder has seventeen entries, because each service and each step of a request is a module or package of its own.
How a job runs belongs in ``jupyter_smx.controller``; what a notebook types belongs in ``jupyter_smx.kernel``.
"""
