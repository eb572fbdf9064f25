"""`tpplan lsp` with broken clients: every message gets a reply or ends the server with an error, never with a crash."""

import json
import random

import pytest
from client import Client, uri_of
from conftest import PROGRAM, run

NOT_INITIALIZED, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, NO_JSON = -32002, -32600, -32601, -32602, -32700


@pytest.fixture
def server(tmp_path):
    with Client(cwd=tmp_path) as client:
        yield client


def refused(client, message):
    client.send(message)
    answer = client.read()
    assert answer["jsonrpc"] == "2.0" and answer["error"]["message"]
    return answer["id"], answer["error"]["code"]


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def spoken(*pieces):
    """A server that gets these bytes and then the end of input: exit status and both streams."""
    result = run("lsp", stdin=b"".join(p if isinstance(p, bytes) else framed(p) for p in pieces))
    return result.returncode, result.stdout, result.stderr.decode()


def framed(message):
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


START = request("initialize", processId=None, capabilities={})
EXIT = {"jsonrpc": "2.0", "method": "exit"}


def test_only_initialize_is_accepted_first(server):
    assert refused(server, request("textDocument/hover")) == (1, NOT_INITIALIZED)
    assert refused(server, request("shutdown", "a")) == ("a", NOT_INITIALIZED)
    server.notify("textDocument/didOpen", textDocument={"uri": "file:///p.yaml", "text": "format: tpplan.plan/1"})
    server.start()
    assert refused(server, request("initialize")) == (1, INVALID_REQUEST)
    assert server.at("hover", "/p.yaml", 0, 0) is None, "what came before was not heard"


def test_only_exit_is_accepted_after_shutdown(server):
    server.start()
    assert server.ask("shutdown") is None
    assert refused(server, request("textDocument/hover")) == (1, INVALID_REQUEST)
    server.send(EXIT)
    assert server.process.wait(60) == 0


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], 1),
        ([EXIT], 1),
        ([START, EXIT], 1),
        ([START], 1),
        ([START, request("shutdown"), EXIT], 0),
        ([START, request("shutdown")], 0),
    ],
)
def test_exit_status_depends_on_shutdown(messages, status):
    assert spoken(*messages)[0] == status


def test_unknown_methods_are_rejected_notifications_ignored(server):
    server.start()
    assert refused(server, request("textDocument/rename")) == (1, NO_METHOD)
    assert refused(server, request("$/\u202e\x1b[31m", -7)) == (-7, NO_METHOD)
    server.notify("$/cancelRequest", id=1)
    server.notify("workspace/didChangeConfiguration", settings={})
    server.send({"jsonrpc": "2.0", "id": 4, "result": None})
    assert server.end() == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", NO_JSON),
        (b"{", NO_JSON),
        (b"nonsense", NO_JSON),
        (b"8", NO_JSON),
        (b'{"id": 1, "id": 2}', NO_JSON),
        (b'{"method": "\xff"}', NO_JSON),
        (b'{"params": "\\ud800"}', NO_JSON),
        (b"[" * 10_000, INVALID_REQUEST),
        (b'{"params": ' + b"[" * 10_000, NO_JSON),
        (b"[]", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b'{"method": 8}', INVALID_REQUEST),
        (b'{"id": {}, "method": "x"}', INVALID_REQUEST),
    ],
)
def test_invalid_message_is_rejected_and_the_next_accepted(server, body, code):
    assert refused(server, body) == (None, code)
    server.start()
    assert server.end() == 0


def test_ids_are_returned_unchanged(server):
    for number in (0, -1, 2**53, 1.5, "", "é\n"):
        assert refused(server, request("x", number)) == (number, NOT_INITIALIZED)


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (b"Content-Length: 99\r\n\r\n{}", "ends inside"),
        (b"Content-Length: 9", "ends inside"),
        (b"Content-Length: 99999999999\r\n\r\n", "exceeds the limit"),
        (b"Content-Length: 99999999999999999999999\r\n\r\n", "is not a number"),
        (b"Content-Length: -1\r\n\r\n{}", "is not a number"),
        (b"Content-Length:\r\n\r\n{}", "is not a number"),
        (b"Content-Type: x\r\n\r\n{}", "without Content-Length"),
        (b"\r\n\r\n", "without Content-Length"),
        (b"x" * 100_000, "do not end"),
        (b"\x00" * 9000, "do not end"),
        (b"{}\r\n\r\n", "without Content-Length"),
    ],
)
def test_stream_without_messages_ends_the_server_with_an_error(stream, said):
    status, out, error = spoken(stream)
    assert (status, out) == (2, b"")
    assert error.startswith("tpplan: error: lsp: ") and said in error


def test_headers_may_have_any_http_form():
    body = json.dumps(request("x")).encode()
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:%d \r\n\r\n" % len(body)
    assert spoken(head + body)[1].count(b"-32002") == 1


def test_messages_may_arrive_in_any_chunks(server):
    for byte in framed(START):
        server.write(bytes([byte]))
    assert server.answer()["result"]["capabilities"]
    server.write(framed(request("a", 2)) + framed(request("b", 3)))
    assert [server.answer()["id"] for _ in range(2)] == [2, 3]


WRONG = [None, 8, -1, 2**63 - 1, "x", "file:///", "file://%", "file:///%00", [], {}, [[]], {"line": -1}, True, 1.5]


def spoiled(chance, value):
    """A value with one part replaced or removed."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        rest = {k: v for k, v in value.items() if k != key}
        return rest if chance.random() < 0.2 else rest | {key: spoiled(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        return [spoiled(chance, value[0]), *value[1:]]
    return chance.choice(WRONG)


def test_params_of_any_form_get_a_reply(server, tmp_path):
    server.start()
    chance = random.Random(1)
    uri = uri_of(tmp_path / "plan.yaml")
    plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan:\n  a: colwise\n"
    place = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 3}}
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 9}}
    document = {"textDocument": {"uri": uri, "version": 1, "text": plan, "languageId": "yaml"}}
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": plan, "range": span}]}
    messages = [
        ("textDocument/didOpen", document),
        ("textDocument/didChange", change),
        ("textDocument/didSave", {"textDocument": {"uri": uri}}),
        ("textDocument/didClose", {"textDocument": {"uri": uri}}),
        ("textDocument/hover", place),
        ("textDocument/completion", place),
        ("textDocument/codeAction", {"textDocument": {"uri": uri}, "range": span, "context": {"diagnostics": []}}),
    ]
    for number in range(400):
        method, params = chance.choice(messages)
        if number % 5 == 0:
            server.send({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": document})
        server.send(
            {"jsonrpc": "2.0", "method": method, "params": spoiled(chance, params)}
            | ({} if "did" in method else {"id": number})
        )
        if "did" not in method:
            answer = server.answer()
            assert answer["id"] == number and ("result" in answer or answer["error"]["code"] == INVALID_PARAMS)
    assert server.end() == 0


def test_texts_of_any_form_get_a_reply(server, tmp_path):
    """A plan with some bytes replaced, and requests at any place in it."""
    server.start()
    chance = random.Random(2)
    path = tmp_path / "plan.yaml"
    plan = 'format: tpplan.plan/1\ndialect: glob\nmesh: {tp: 2}\ntp_plan:\n  "a.*": {style: colwise}\nblocks:\n  b:\n    c: rowwise\n'
    server.open(path, plan)
    for number in range(150):
        text = list(plan)
        for _ in range(1 + chance.randrange(4)):
            at = chance.randrange(len(text))
            text[at : at + chance.randrange(3)] = chance.choice(
                ['"', "\n", "\r", ":", "{", " ", "𝄞", "\x00", "\u2028", "#"]
            )
        server.change(path, "".join(text) + "# tpplan.plan/1", version=number + 2)
        for method in ("hover", "completion"):
            server.at(method, path, chance.randrange(14), chance.randrange(30))
    assert server.end() == 0


def test_closed_pipe_ends_the_server(tmp_path):
    with Client(cwd=tmp_path) as client:
        client.process.stdout.close()
        client.send(START)
        assert client.process.wait(60) == 2


def test_lsp_command_exists():
    assert run("lsp", "--help").returncode == 0, PROGRAM
    assert run("lsp", "unasked").returncode == 2


def test_stdio_flag_changes_nothing():
    plain, flagged = run("lsp", stdin=b""), run("lsp", "--stdio", stdin=b"")
    assert (plain.returncode, plain.stdout, plain.stderr) == (flagged.returncode, flagged.stdout, flagged.stderr)
    assert run("lsp", "--socket", stdin=b"").returncode == 2
