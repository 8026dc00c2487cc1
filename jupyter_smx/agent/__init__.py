"""The far side: one agent per host, standard library only, copied there as one zipapp."""
