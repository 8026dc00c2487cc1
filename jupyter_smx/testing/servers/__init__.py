"""Run file servers and object stores on loopback for tests."""
