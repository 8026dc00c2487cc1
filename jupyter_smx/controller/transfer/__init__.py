"""Move files between hosts, the job's folder and URLs: list inputs, stage out, merge archives, upload.

Key classes: ``OutputStager`` and ``JobFolder``. Staging on the host belongs in ``jupyter_smx.agent.channels``.
"""
