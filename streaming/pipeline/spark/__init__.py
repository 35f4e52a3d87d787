"""The session of a job, and the frames that its sinks write."""
