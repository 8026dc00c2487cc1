"""The data folder: where it is, a short path for its sockets, and the lock of the one process that owns it.

``location`` decides which folder has the records, ``short_folder`` has a private folder for unix sockets, and
``singleton_lock`` is what the controller and the front for clients of AWS hold. By ``file_identity`` they notice that
a file was replaced. Every package may import these.
"""
