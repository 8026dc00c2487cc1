"""The far side: one agent per host, standard library only, copied there as one zipapp."""

__version__ = "0.1.0"
