"""Parse and write the forms of S3: ranges, conditions, checksums, chunks, headers and XML; none of it does I/O."""
