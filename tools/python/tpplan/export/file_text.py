"""The text of model files."""

import json


def file_text(modules, graph=None):
    """Returns a model file as text: one field of a module per line, one table of the graph per line."""
    text = json.dumps(modules, indent=1)
    return text + "\n" if graph is None else f'{text[:-2]},\n "graph": {graph}\n}}\n'
