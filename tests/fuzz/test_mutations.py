"""Some 1,500 seeded mutations of small valid inputs: the exit status is 0, 1 or 2, and a failure has a message."""

import pathlib
import random
import re

import pytest
from conftest import codes, run

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
SEEDS = sorted((CORPUS / "compile").glob("*.txt"))
TOKEN = re.compile(rb"[A-Za-z_]+|\d+|\s+|[^A-Za-z_\d\s]")
INTERESTING = [
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b"\t",
    b"\x1b",
    b"'",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"*",
    b"&",
    b"-",
    b"#",
    b"|",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e999",
    b"9223372036854775808",
    b"\xe2\x80\xae",
    b"\\u0000",
    b"\\ud800",
    b"*a",
    b"&a ",
    b"<<: ",
    b"!x ",
    b"---\n",
    b"...\n",
    b"\xef\xbb\xbf",
]
# Control characters and direction overrides: no output moves a cursor or reorders text.
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def split_seed(path):
    """A seed is a model, a line `%%`, and a plan."""
    model, plan = path.read_bytes().split(b"\n%%\n")
    return [model, plan]


def change_byte(generator, text):
    i = generator.randrange(len(text))
    return text[:i] + bytes([generator.randrange(256)]) + text[i + 1 :]


def flip_bit(generator, text):
    i = generator.randrange(len(text))
    return text[:i] + bytes([text[i] ^ 1 << generator.randrange(8)]) + text[i + 1 :]


def delete_run(generator, text):
    i = generator.randrange(len(text))
    return text[:i] + text[i + generator.choice([1, 1, 2, 5, 20, 100]) :]


def repeat_run(generator, text):
    i = generator.randrange(len(text))
    end = i + generator.choice([1, 2, 10, 60])
    return text[:end] + text[i:end] * generator.choice([1, 1, 3, 50]) + text[end:]


def swap_tokens(generator, text):
    tokens = TOKEN.findall(text)
    i, k = generator.randrange(len(tokens)), generator.randrange(len(tokens))
    tokens[i], tokens[k] = tokens[k], tokens[i]
    return b"".join(tokens)


def replace_token(generator, text):
    tokens = TOKEN.findall(text)
    tokens[generator.randrange(len(tokens))] = generator.choice(INTERESTING)
    return b"".join(tokens)


def insert_token(generator, text):
    i = generator.randrange(len(text) + 1)
    return text[:i] + generator.choice(INTERESTING) + text[i:]


MUTATIONS = [change_byte, flip_bit, delete_run, repeat_run, swap_tokens, replace_token, insert_token]


def survive(folder, model, plan):
    """Runs the program on both and checks the promises for every input."""
    (folder / "model.json").write_bytes(model)
    (folder / "plan.yaml").write_bytes(plan)
    output = folder / "out.json"
    result = run("compile", "model.json", "plan.yaml", "-o", output.name, cwd=folder, timeout=10)
    inputs = f"model: {model!r}\nplan: {plan!r}\n{result.stderr.decode(errors='backslashreplace')}"
    assert result.returncode in (0, 1, 2), inputs
    assert result.returncode == 0 or codes(result), inputs
    assert output.exists() == (result.returncode == 0), inputs
    assert not UNPRINTABLE.search(result.stderr.decode(errors="replace")), inputs
    if output.exists():
        shown = run("show", output.name, cwd=folder)
        assert shown.returncode == 0, inputs + shown.stderr.decode(errors="backslashreplace")
        output.unlink()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
def test_seed_is_a_model_and_a_plan_that_compile(tmp_path, seed):
    model, plan = split_seed(seed)
    survive(tmp_path, model, plan)
    assert run("compile", "model.json", "plan.yaml", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("seed", sorted((CORPUS / "manifest").iterdir()), ids=lambda path: path.stem)
def test_seed_is_a_manifest(seed):
    assert run("show", seed).returncode == 0


@pytest.mark.parametrize("name, which", [("keras", 0), ("keras", 1), ("glob", 1)], ids=["model", "plan", "long-plan"])
def test_truncated_input_is_survived(tmp_path, name, which):
    whole = split_seed(CORPUS / "compile" / f"{name}.txt")
    for end in range(len(whole[which])):
        files = list(whole)
        files[which] = whole[which][:end]
        survive(tmp_path, *files)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_mutation_is_survived(tmp_path, mutate):
    generator = random.Random(mutate.__name__)
    for i in range(96):
        files = split_seed(SEEDS[i % len(SEEDS)])
        which = i // len(SEEDS) % 2
        for _ in range(generator.choice([1, 1, 1, 2, 4])):
            files[which] = mutate(generator, files[which]) if files[which] else b""
        survive(tmp_path, *files)
