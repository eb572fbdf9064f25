"""One byte of a manifest is changed, removed or inserted: the manifest is rejected, or the change was white space between values and the
content is unchanged. Tested for every byte of a small manifest and every nineteenth of larger ones, in the program and in Python's reader;
with TPPLAN_EVERY_BYTE for every byte of all."""

import json
import os
import random
import sys

import pytest
from conftest import ROOT, run

sys.path.insert(0, str(ROOT / "tools" / "python"))
from tpplan.manifest import ManifestError, load_manifest  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "compile"
SEEDS = sorted(path.stem for path in CORPUS.glob("*.txt"))
BLANK = b" \t\r\n"


@pytest.fixture(scope="module", params=SEEDS)
def manifest(request, tmp_path_factory):
    """The bytes of a manifest, and a folder for variants of it."""
    folder = tmp_path_factory.mktemp(request.param)
    model, plan = (CORPUS / f"{request.param}.txt").read_bytes().split(b"\n%%\n")
    (folder / "model.json").write_bytes(model)
    (folder / "plan.yaml").write_bytes(plan)
    result = run("compile", "model.json", "plan.yaml", "-o", "manifest.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, (folder / "manifest.json").read_bytes()


def other_byte(generator, byte):
    """A replacement for this byte: mostly one of its kind, so that the text remains JSON."""
    digits, letters = b"0123456789", b"abcdefghijklmnopqrstuvwxyz_."
    kind = next((kind for kind in (digits, letters) if byte in kind), bytes(range(256)))
    return generator.choice([b for b in (kind if generator.random() < 0.75 else bytes(range(256))) if b != byte])


def changes(text, generator):
    """Every place, with one of three changes: (offset, old bytes, new bytes)."""
    for at, byte in enumerate(text):
        if at % 3 != 2:
            yield at, bytes([byte]), bytes([other_byte(generator, byte)])
        elif generator.random() < 0.5:
            yield at, bytes([byte]), b""
        else:
            yield at, b"", bytes([generator.choice(text)])


def sample(text, all_changes):
    every = "TPPLAN_EVERY_BYTE" in os.environ or len(text) < 2000
    return list(all_changes)[:: 1 if every else 19]


def is_between_values(text, at, was, now):
    """True if a change only adds, removes or replaces white space outside texts."""
    inside, escaped = False, False
    for byte in text[:at]:
        if escaped:
            escaped = False
        elif byte == ord('"'):
            inside = not inside
        else:
            escaped = inside and byte == ord("\\")
    return not inside and all(byte in BLANK for byte in was + now)


def test_changed_byte_is_rejected_or_white_space(manifest):
    folder, text = manifest
    generator = random.Random(len(text))
    good, document, refused = run("show", "manifest.json", "--format", "json", cwd=folder).stdout, json.loads(text), 0
    tried = sample(text, changes(text, generator))
    for at, was, now in tried:
        (folder / "changed.json").write_bytes(text[:at] + now + text[at + len(was) :])
        result = run("show", "changed.json", "--format", "json", cwd=folder)
        where = f"at {at}: {was!r} became {now!r} in {text[max(0, at - 40) : at + 40]!r}\n{result.stderr.decode()}"
        if result.returncode == 0:
            assert result.stdout == good and json.loads((folder / "changed.json").read_bytes()) == document, where
            assert is_between_values(text, at, was, now), where
        else:
            assert result.returncode in (1, 2) and result.stdout == b"" and b"error[TP" in result.stderr, where
            refused += 1
    assert refused > 0.9 * len(tried)


def test_python_reader_rejects_the_same_changes(manifest):
    folder, text = manifest
    generator = random.Random(len(text))
    whole = load_manifest(folder / "manifest.json")
    for at, was, now in sample(text, changes(text, generator)):
        (folder / "changed.json").write_bytes(text[:at] + now + text[at + len(was) :])
        where = f"at {at}: {was!r} became {now!r} in {text[max(0, at - 40) : at + 40]!r}"
        try:
            read = load_manifest(folder / "changed.json")
        except ManifestError:
            continue
        assert read == whole and is_between_values(text, at, was, now), where
