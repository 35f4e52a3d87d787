"""`assignor top`: a running query on a screen."""
