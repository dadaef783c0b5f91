"""`python -m tileprobe` is the `tileprobe` command."""

import sys

from tileprobe.cli import main

sys.exit(main())
