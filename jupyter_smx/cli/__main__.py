"""Run ``python -m jupyter_smx.cli``, where the command is not on the PATH."""

import sys

from jupyter_smx.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
