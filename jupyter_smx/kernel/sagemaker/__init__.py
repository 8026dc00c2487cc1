"""Describe jobs in SageMaker's API terms and export them as programs of SageMaker's SDK.

Nothing here calls SageMaker.
"""
