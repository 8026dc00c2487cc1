"""Start the process of each job: a zygote imports libraries once, and forked children wait for jobs.

Key classes: ``ForkServerPool`` (the agent's side) and ``JobRun`` (the child's side). Running the user's code
belongs in ``code``. About sixteen entries, since agent, zygote and child have a side of each protocol.
"""
