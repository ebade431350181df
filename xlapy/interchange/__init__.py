"""Programs to and from other frameworks."""
