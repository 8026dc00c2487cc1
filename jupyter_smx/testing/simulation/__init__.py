"""Run the real controller core over fake hosts in simulated time, with random histories and invariants."""
