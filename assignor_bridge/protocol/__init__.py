"""The contract between the Java layer, the planner process and the command line.

`messages` are the lines on the planner's standard input and output, `columns` the arrays in them,
and `snapshots` the form of the same that people write and read (`assignor plan`).
"""
