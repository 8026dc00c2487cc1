"""Define the records that all layers share.

``spec`` (what is asked for), ``records`` (jobs, clusters, events), ``results`` (what a run measured and cost), and
errors, names and durations. The folder has seventeen entries, since facts that every layer reads lie here too, as the
versions of a Python and of this package. Imports nothing else of the package; behaviour belongs in the other layers.
"""
