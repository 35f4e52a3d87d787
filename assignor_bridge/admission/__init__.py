"""Admission: how far each partition goes in a micro-batch, before anybody plans who reads it.

`admit` is the recipe. Pure, as the planner is, of which it knows nothing: what was learned of costs
comes in as columns, and the ends of the partitions go out.
"""
