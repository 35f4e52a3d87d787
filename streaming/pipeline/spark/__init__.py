"""A job's Spark session, and the frames that its sinks write."""
