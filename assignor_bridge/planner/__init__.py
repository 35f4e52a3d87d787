"""Decides which executor slot reads which offsets in a micro-batch. Pure: data in, data out.

- `batch`: the snapshot as arrays; `ledger`: the memory during one batch
- `weights`: predicted seconds, learned; `owners`: who read what last
- `flagship` with `place` (splitting) or `assignors.whole`: ours; `groups`: all others
- `pieces`, `top_up`, `pack`: tasks; `check`: the last gate; `explain`, `describe`: why
- `plan`: where the steps meet
"""
