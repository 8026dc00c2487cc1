"""Programs that write files of this repository from published sources."""
