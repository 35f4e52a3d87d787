"""Decide which executor slot reads which offsets in a micro-batch, as a pure function.

`plan` calls the modules in this order: `batch` (the snapshot as arrays), `slots`, `table` (the
state), `learn`, `costs`, `demand`, `flagship` or `groups`, `pack`, `check`, `remember`, `explain`.
"""
