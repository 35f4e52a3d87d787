"""The protocol between the Java layer and the planner process.

`messages` has the lines on the planner's standard input and output, `columns` the arrays in them.
"""
