"""`assignor doctor`: check this `machine`, a `checkpoint`, or the address of a `spark` master."""
