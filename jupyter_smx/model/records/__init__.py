"""Define what the controller records: ``Job``, ``Cluster``, ``Event`` and their summaries."""
