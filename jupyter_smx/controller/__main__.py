"""Run ``python -m jupyter_smx.controller``; Python requires a file of this name."""

import gc
import logging
import os
import sys

# Until it serves. All that is loaded meanwhile stays, and each look for garbage goes through it.
gc.disable()

from jupyter_smx.controller.app import main  # noqa: E402 - as said

code = main()
logging.shutdown()
sys.stdout.flush()
sys.stderr.flush()
# A thread that still copies a large file must not keep the process alive: the next controller copies it again.
os._exit(code)
