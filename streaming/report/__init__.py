"""Reports on a query: a diagnosis, charts, and HTML pages, made from plain data."""
