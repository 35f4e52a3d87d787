"""Determine how far a query or a consumer group has read, and how far it is behind.

- `positions`: the next offsets that a query or a group will read, also as `startingOffsets`
- `first_unread`: when the first unread records were written; `group_plan`: plans for a live group
- `lag_records`: positions compared with the log; `lag_table`: rows as text and JSON, and alarms
"""
