"""Model files as text."""

import json


def file_text(modules, graph=None):
    """A model graph as text: modules and their members on lines of their own, the tables of the operations on one each."""
    text = json.dumps(modules, indent=1)
    return text + "\n" if graph is None else f'{text[:-2]},\n "graph": {graph}\n}}\n'
