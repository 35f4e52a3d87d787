"""`assignor replay`: the batches of a checkpoint, planned again by other assignors."""
