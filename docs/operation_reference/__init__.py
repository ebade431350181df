"""The operation reference, made from the records of the operations; `docs/generate.py` writes it."""
