"""The text of model files."""

import json


def file_text(modules, graph=None, program=None):
    """Returns a model file as text: one field of a module per line, one table of the graph or one operation of the
    program per line."""
    text = json.dumps(modules, indent=1)
    for key, value in (("graph", graph), ("program", program)):
        if value is not None:
            text = f'{text[:-2]},\n "{key}": {value}\n}}'
    return text + "\n"
