"""Reduce and what is built on it."""
