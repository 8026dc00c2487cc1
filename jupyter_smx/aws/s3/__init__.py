"""Serve S3 over a folder in which ``s3://bucket/key`` is the local path ``<root>/<bucket>/<key>``.

``handler`` is the edge to tornado. ``operations`` decide and answer, ``storage`` acts on the disk, and ``forms`` holds
what is pure, as ranges, checksums and XML. State that is no object is in ``<root>/.smx``, which is no name of a bucket.
Key classes: ``S3Handler``, ``S3Storage``, ``S3Call``. Signatures belong in ``jupyter_smx.aws.signature``.
"""
