"""The operations of a torch module, recorded as it runs once: the member `graph` of a model graph."""

from .trace import Untraceable, trace

__all__ = ["Untraceable", "trace"]
