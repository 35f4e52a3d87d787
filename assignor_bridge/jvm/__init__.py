"""The Java layer: its sources and the build of the jar."""
