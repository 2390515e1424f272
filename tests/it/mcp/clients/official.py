"""Checks recorded exchanges with a server against the official schemas, with the package `jsonschema`.

`official.py SCHEMAS RECORDS` reads the pairs `NAME.in` and `NAME.out` of a directory: what a client and the server have
written. It prints how many messages of which kind are right, and fails at the first that is wrong. The schemas of the
tools are right, too.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMAS, RECORDS = map(Path, sys.argv[1:])
VERSION = "io.modelcontextprotocol/protocolVersion"
OLD, NEW = "2025-11-25", "2026-07-28"
RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/call": "CallToolResult",
    "tools/list": "ListToolsResult",
}
counts = Counter()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def era(message):
    return NEW if VERSION in message.get("params", {}).get("_meta", {}) else OLD


def check(version, definition, instance):
    schema = json.loads((SCHEMAS / f"schema-{version}.json").read_text())
    Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}).validate(instance)
    counts[f"{version} {definition}"] += 1


for sent in sorted(RECORDS.glob("*.in")):
    requests = {json.dumps(m["id"]): m for m in lines(sent) if "id" in m and "method" in m}
    tokens = {}
    for request in requests.values():
        token = request.get("params", {}).get("_meta", {}).get("progressToken")
        tokens[json.dumps(token)] = request
    # A connection has one era, that of its first request.
    own = era(next(iter(requests.values()), {}))
    for message in lines(sent.with_suffix(".out")):
        if "method" in message:
            token = json.dumps(message.get("params", {}).get("progressToken"))
            check(era(tokens[token]) if token in tokens else own, "ServerNotification", message)
            continue
        request = requests[json.dumps(message["id"])]
        if "error" in message:
            check(era(request), "JSONRPCErrorResponse", message)
            continue
        check(era(request), "JSONRPCResultResponse", message)
        check(era(request), RESULTS[request["method"]], message["result"])
        for tool in message["result"].get("tools", []):
            Draft202012Validator.check_schema(tool["inputSchema"])
            Draft202012Validator.check_schema(tool["outputSchema"])
print(json.dumps(counts))
