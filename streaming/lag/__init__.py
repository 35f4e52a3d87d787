"""Where a query or a consumer group stands, and how far that is from the end of the log."""
