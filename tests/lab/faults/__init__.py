"""Faults while one query reads: what is done to it, and what must be true afterwards.

- `scene`: the query, the records that are written all the while, and the checks
- `kinds`: the faults, by name
- `report`: how often each was tried, for docs/internals/faults.md
"""
