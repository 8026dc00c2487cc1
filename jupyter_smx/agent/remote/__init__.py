"""Do what an engine asks for on a machine that is not the controller's: launch, look at and end hosts there.

The agent's archive is all that the machine needs: ``python agent.pyz remote VERB ROOT``. ``ROOT`` is the folder of one
account, :mod:`jupyter_smx.agent.remote.cluster_store` describes it. Engines of ``jupyter_smx.engines.remote`` ask.
"""
