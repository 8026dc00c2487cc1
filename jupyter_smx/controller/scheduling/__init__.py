"""Reconcile jobs and clusters with their desired state: place, dispatch, stop and finalize.

Key classes: ``JobReconciler``, ``ClusterReconciler``, ``Scheduler``, ``JobFinalizer``. Which job goes where is
decided in ``jupyter_smx.policy.scheduling``.
"""
