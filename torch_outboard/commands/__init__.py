"""What `python -m torch_outboard <command>` offers: `main` lists the commands, one module each."""
