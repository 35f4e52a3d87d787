"""The Java sources and the build of their jar."""
