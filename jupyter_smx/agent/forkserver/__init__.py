"""How the process of a job is born: preloads, their trial, parked children."""
