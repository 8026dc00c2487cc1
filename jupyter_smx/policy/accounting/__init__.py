"""Compute prices, utilisation and profiler advice from records."""
