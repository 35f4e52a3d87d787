"""Decide which executor slot reads which offsets in a micro-batch, as a pure function.

`plan` takes a `batch` (the snapshot as arrays), and calls these modules in this order: `slots`,
`table` (the state), `learn`, `costs`, `demand`, `flagship` or `groups`, `pack`, `check`,
`remember`, `explain`.
"""
