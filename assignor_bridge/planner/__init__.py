"""Decide which executor slot reads which offsets in a micro-batch, as a pure function.

`plan` takes a `batch` (the snapshot as arrays), and calls these modules in this order: `slots`,
`table` (the state), `learning`, `costs`, `unpredictability`, `cold_reads`, `demand`, `flagship` or
`group_assignors`, `tail`, `pack`, `task_list`, `verify`, `remember`, `explanation`.
"""
