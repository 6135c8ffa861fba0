"""`python -m torch_outboard <command>`."""

from torch_outboard.commands.main import main

raise SystemExit(main())
