"""The user's code on a host: how it comes, what it imports, how a cell is run."""
