"""The local engine: hosts are processes of this machine."""
