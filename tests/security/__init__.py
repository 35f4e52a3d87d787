"""What docs/security.md promises, with the protection taken out: see `tests.security.without`."""
