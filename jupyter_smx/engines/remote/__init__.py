"""What engines share whose hosts run on machines that are not the controller's.

:mod:`~jupyter_smx.engines.remote.remote_engine` is the engine without a way to its machines, which a subclass adds as
:class:`~jupyter_smx.engines.remote.machine.RemoteMachine`: one that runs a command and one that opens a stream.
:mod:`~jupyter_smx.engines.remote.account` asks the agent's archive on a machine, and brings it there first.
:mod:`~jupyter_smx.engines.remote.cluster_register` writes down on which machines each cluster is before it is launched.
"""
