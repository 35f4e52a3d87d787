"""The `assignor` console command: one module a command, all of them named in `main`."""
