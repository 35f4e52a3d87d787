"""Where a query or a consumer group stands, and how far that is from the end of the log.

- `positions`: up to where a query or a group has read, also as Spark's `startingOffsets`
- `first_unread`: when the first unread records were written
- `rows`: positions and the log; `table`: rows as text and JSON, and what a monitor must know
"""
