"""Read and validate JSON that people write: consumer groups, batch snapshots, and racks."""
