"""Names in a host's folder and in each job's folder of its spool; agent, engines and controller take them from here.

A cluster's folder has one folder for each host. The engine writes :data:`DESCRIPTION` and :data:`PROVIDED`, the agent
everything else. The spool has one folder for each job, from which the controller reads log, record and artefacts.
"""

from __future__ import annotations

DESCRIPTION = "host.json"
"""File: the engine's description of the host for the agent."""
PROCESS = "agent.json"
"""File: process id and start of the agent that has claimed the folder."""
AGENT_LOG = "agent.log"
"""File: output of the agent itself."""
SOCKET = "agent.sock"
"""Unix socket on which the agent listens."""
CLAIM = "claim"
"""Empty file: an agent or a release has taken the folder for good."""
SHORTCUT = "shortcut"
"""File: the short link that leads to a folder whose path is too long for a socket."""
ML = "ml"
"""Folder that jobs see as ``/opt/ml``."""
TMP = "tmp"
"""Folder that jobs see as ``/tmp``."""
SLOTS = "slots"
"""Folder with one folder for each process that waits for a job."""
SPOOL = "spool"
"""Folder with one folder for each job that the host ever started."""
TRASH = "trash"
"""Folder of what jobs left, until it is removed."""
TREES = "code"
"""Folder of unpacked source folders, each named by its digest."""
QUEUES = "queues"
"""Folder on which a private host shows its POSIX message queues."""
INPUTS = "inputs"
"""Folder of inputs that the host keeps from one job to the next."""
PROVIDED = "given"
"""Folder of what an engine copies to a host that cannot read the machine's files."""

JOB_LOG = "log"
"""File in a job's folder: the output of the job."""
END_RECORD = "end.json"
"""File in a job's folder: the record of its end."""
REPORT = "report.json"
"""File in a job's folder: the report of the job's process about its end."""
SAMPLES = "samples"
"""File in a job's folder: the resource usage of the job, one line for each sample."""
ARTIFACTS = "artifacts"
"""Folder in a job's folder: the files that the controller fetches."""
RESULT = "result.pkl"
"""Artifact with the variables that a job returns."""

FOLDERS = (ML, TMP, SLOTS, TRASH, TREES, INPUTS, PROVIDED)
"""Folders that only a living host needs; the spool stays for the controller."""
