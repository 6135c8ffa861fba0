"""`python -m torch_outboard <command>`."""

from torch_outboard.cli import main

raise SystemExit(main())
