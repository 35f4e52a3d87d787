"""Figures of measured runs and their pictures: plain data in, SVG and HTML text out."""
