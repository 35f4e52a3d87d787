"""`assignor demo`: one job on real flights, with Spark's mapping and with ours, measured alike."""
