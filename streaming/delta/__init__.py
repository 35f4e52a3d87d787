"""Delta Lake: sessions that can use it, and the transactions in a table's log."""
