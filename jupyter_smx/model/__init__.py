"""Define the records that all layers share.

``spec`` (what is asked for), ``records`` (jobs, clusters, events), ``results`` (what a run measured and cost), and
errors, names and durations. Imports nothing else of the package; behaviour belongs in the other layers.
"""
