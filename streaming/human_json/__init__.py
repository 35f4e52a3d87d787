"""JSON that people write: consumer groups, snapshots of batches, racks; read, and checked."""
