"""`assignor doctor`: is this `machine` ready, is this `checkpoint` sound."""
