"""Each promise of docs/security.md with its protection removed: `tests.lab.security.without`."""
