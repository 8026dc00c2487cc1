"""``python -m jupyter_smx.cli``, for where no command is on the path."""

import sys

from jupyter_smx.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
