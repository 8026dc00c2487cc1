"""Forward a port of a host's loopback over the controller's stream.

Key modules: ``channel_frames`` has what both sides of the stream agree on, ``forwarded_port`` the host's side.
"""
