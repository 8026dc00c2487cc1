"""Run ``python -m jupyter_smx.aws``; Python requires a file of this name."""

import sys

from jupyter_smx.aws.app import main

sys.exit(main(sys.argv[1:]))
