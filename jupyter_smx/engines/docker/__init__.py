"""The Docker engine: hosts are containers of a daemon on this machine."""
