"""Admission decides where each partition's micro-batch ends, before the batch is planned.

It is pure, and it does not import the planner: columns with learned costs go in, ends come out.
"""
