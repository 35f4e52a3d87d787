"""The `assignor` command line. Each command has its own module; `main` lists them."""
