"""Fake hosts and engines with a world that tests control; each fault is named by the failure it causes."""
