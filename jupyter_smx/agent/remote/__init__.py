"""Run commands of an engine on a machine that is not the controller's: launch, observe and end hosts there.

The machine needs only the agent's archive: ``python agent.pyz remote VERB ROOT``. ``ROOT`` is the folder of one
account, described in :mod:`jupyter_smx.agent.remote.cluster_store`. ``jupyter_smx.engines.remote`` sends the commands.
"""
