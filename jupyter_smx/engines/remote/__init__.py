"""Common parts of engines whose hosts run on machines that are not the controller's.

:mod:`~jupyter_smx.engines.remote.remote_engine` is the engine without a connection to its machines, which a subclass
adds as :class:`~jupyter_smx.engines.remote.machine.RemoteMachine`: one method runs a command, one opens a stream.
:mod:`~jupyter_smx.engines.remote.account` calls the agent's archive on a machine, and sends it there first.
:mod:`~jupyter_smx.engines.remote.cluster_register` records the machines of each cluster before its launch. The other
entries are facts, files and environments of machines. :mod:`~jupyter_smx.engines.remote.remote_base` is what an engine
without configured machines has, too.
"""
