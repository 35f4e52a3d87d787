"""Admission decides where each partition's micro-batch ends, before the batch is planned.

`admit` calls the steps. Like the planner it is pure, and it does not import the planner: its input
are columns with the learned costs, and its output are the partitions' end offsets.
"""
