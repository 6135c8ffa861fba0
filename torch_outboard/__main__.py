"""`python -m torch_outboard <command>`."""

from torch_outboard.commands import main

raise SystemExit(main())
