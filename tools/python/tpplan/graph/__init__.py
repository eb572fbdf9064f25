"""Traces the operations of a torch module in one call: the field `graph` of a model graph. trace.py is the entry
point; only settings.py can be imported without torch."""
