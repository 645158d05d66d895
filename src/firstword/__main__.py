"""``python -m firstword``: the same as the ``firstword`` command."""

import sys

from firstword.cli import main

sys.exit(main())
