"""List and find jobs: filters, order and pages of lists, and the expressions of Search.

Key class: ``JobLists``. What one job looks like in an answer belongs in ``jupyter_smx.aws.sagemaker.describe``.
"""
