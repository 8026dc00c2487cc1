"""Find, start and use the front for clients of AWS: for kernels, terminals, the Jupyter server and the front itself.

``endpoint_file`` has its port and its key, ``process`` starts and stops it. ``environment`` has the variables that
lead clients to it, ``sagemaker_patch`` what variables cannot reach, ``aws_config`` reads AWS's own configuration, and
``profile`` writes a profile into it; ``switch`` puts them together, and ``settings`` has the traits. ``python_startup``
is for each Python of a shell, and ``request_folder`` names where the requests of jobs are. The package imports neither
botocore nor tornado; what the front answers belongs in ``jupyter_smx.aws``.
"""
