"""Define the records that all layers share. Imports nothing else of the package.

``spec`` (what is asked for), ``records`` (jobs, clusters, events), ``results`` (what a run measured and cost), and
errors, names and durations.
"""
