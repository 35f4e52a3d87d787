"""Tests of the tools that make the evidence."""
