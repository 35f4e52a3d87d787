"""Delta Lake support: session settings, and the content of a table's log."""
