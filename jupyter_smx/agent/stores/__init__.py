"""Read and write folders, object stores and file servers, and cache inputs on the host.

Key modules: ``fsspec_worker`` (the process with fsspec), ``worker_client``, ``input_cache``, ``fuse_mount``. Input
channels belong in ``channels``.
"""
