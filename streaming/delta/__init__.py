"""Delta Lake support: sessions, and readers of a table's log."""
