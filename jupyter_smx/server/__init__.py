"""The Jupyter server extension: it authenticates, passes on to the controller, and relays events; it keeps no state."""
