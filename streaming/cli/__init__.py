"""The `assignor` console command; each command has its own module, and `main` lists them."""
