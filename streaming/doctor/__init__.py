"""`assignor doctor`: is this machine ready, and is this checkpoint sound."""
