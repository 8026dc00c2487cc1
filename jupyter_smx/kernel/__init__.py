"""Run in the notebook's kernel: magics, handles, cards, variables, exports.

Packages, bottom first: ``client``, ``text``, ``options``, ``logs``, ``request``, ``failures``, ``display``,
``sagemaker``, ``handles``, ``api``, ``magics``; the module ``front_end`` serves several. Never imports tornado, SQL or
an engine: loading the extension must stay quick.
"""
