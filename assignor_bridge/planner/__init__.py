"""Decides which executor slot reads which offsets in a micro-batch. Pure: data in, data out.

`plan` is the recipe, a snapshot goes through the modules once, in this order: `batch` (the snapshot
as arrays), `table` (with the state), `learn`, `costs` (predicts), `demand`, `flagship` with `place`
and `pieces` or `groups` (all other assignors), `pack`, `check`, `remember`, `explain`.
"""
