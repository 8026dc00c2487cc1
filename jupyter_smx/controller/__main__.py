"""Run ``python -m jupyter_smx.controller``; Python requires a file of this name."""

import logging
import os
import sys

from jupyter_smx.controller.app import main

code = main()
logging.shutdown()
sys.stdout.flush()
sys.stderr.flush()
# A thread that still copies a large file must not keep the process alive: the next controller copies it again.
os._exit(code)
