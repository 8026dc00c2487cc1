"""The controller: one process per user and machine that owns the records and acts on what policy decides."""
