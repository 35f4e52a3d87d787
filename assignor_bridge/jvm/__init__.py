"""The Java layer: its sources, and how they become the jar."""
