"""Hold the revisions of the tables, one file each. A released revision never changes."""
