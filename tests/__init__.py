"""Tests of assignor-bridge."""
