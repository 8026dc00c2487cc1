"""Act on the folder that holds the objects: paths, files, state beside them, uploads in parts, and keys in order.

Everything here blocks and runs in threads. Key classes: ``S3Storage``, ``TemporaryFile``, ``PartStore``.
"""
