"""Engines: foreign countries that we ask five questions (:mod:`jupyter_smx.engines.base`)."""
