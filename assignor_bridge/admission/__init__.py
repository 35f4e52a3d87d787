"""Admission decides where each partition's micro-batch ends, before the batch is planned.

It is a pure function of columns with learned costs, and does not import the planner.
"""
