"""Reconcile jobs and clusters with their desired state: place, dispatch, stop and finalize.

Key classes: ``JobReconciler``, ``ClusterReconciler``, ``Scheduler``, ``JobFinalizer``. Placement
decisions belong in ``jupyter_smx.policy.scheduling``. Seventeen entries: the steps of the reconcilers are modules of
their own.
"""
