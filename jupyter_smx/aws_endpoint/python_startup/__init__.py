"""The folder that ``jupyter smx aws env`` puts on ``PYTHONPATH``; a folder of its own, since all in it can be imported.

Python imports ``sitecustomize`` from there at its start. Other modules do not belong here.
"""
