"""Commands of `python -m torch_outboard <command>`: `main` lists them, one module each."""
