"""Records the results of Flax and JAX for logical axis rules (data/README.md):

python tests/truth/record_logical.py OUTPUT.json.xz
"""

import json
import lzma
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from logical_cases import add_truth, random_case  # noqa: E402

if __name__ == "__main__":
    chance = random.Random(16)
    cases = [add_truth(random_case(chance)) for _ in range(400)]
    text = json.dumps(cases, separators=(",", ":"))
    pathlib.Path(sys.argv[1]).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
