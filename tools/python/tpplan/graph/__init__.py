"""The operations of a torch module, recorded as it runs once: the member `graph` of a model graph. trace.py does it; only
settings.py can be had without torch."""
