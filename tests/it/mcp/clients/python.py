"""Drives the official Python client of the Model Context Protocol, 1.x or 2.x.

`python.py MODE COMMAND…` connects to the server that the command starts. MODE is `session` for 1.x, and what 2.x calls a
mode. Each line of standard input is a step, and what the client returns for it is a line of standard output:

    {"list": true}                              {"tools": […], …}
    {"call": TOOL, "arguments": {…}}            {"structured": …, "is_error": …, "text": …, "progress": …}
    {"cancel": TOOL, "arguments": {…}}          {"cancelled": true}, some time after the call

Progress is a line of its own. What the client could not use of the server's messages is listed in `faults`.
"""

import json
import logging
import os
import sys
from contextlib import AsyncExitStack

import anyio
import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client

MODE, COMMAND = sys.argv[1], sys.argv[2:]
# The server has begun with a call by then.
CANCELLED_AFTER_S = 0.3
faults = []


class Warnings(logging.Handler):
    def emit(self, record):
        faults.append(self.format(record))


logging.getLogger().addHandler(Warnings(logging.WARNING))


async def on_message(message):
    if isinstance(message, Exception):
        faults.append(repr(message))


def field(model, name):
    """Returns a field of a model, whose names have underscores from 2.x on."""
    snake = "".join("_" + c.lower() if c.isupper() else c for c in name)
    return getattr(model, name) if hasattr(model, name) else getattr(model, snake)


def say(**line):
    print(json.dumps(line), flush=True)


async def connect(stack):
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=dict(os.environ))
    if MODE != "session":
        client = mcp.Client(stdio_client(server), mode=MODE, message_handler=on_message)
        client = await stack.enter_async_context(client)
        return client, client.protocol_version, client.server_info
    streams = await stack.enter_async_context(stdio_client(server))
    client = mcp.ClientSession(*streams, message_handler=on_message)
    client = await stack.enter_async_context(client)
    hello = await client.initialize()
    return client, hello.protocolVersion, hello.serverInfo


async def list_tools(client, version, server):
    tools = (await client.list_tools()).tools
    # What models are shown.
    schemas = [[field(tool, "inputSchema"), field(tool, "outputSchema")] for tool in tools]
    say(tools=[tool.name for tool in tools], schemas=schemas, version=version, server=server.name, faults=faults)


async def call(client, tool, arguments):
    progress = []

    async def on_progress(done, total, message):
        progress.append(message)
        say(progress=message, done=done, total=total)

    result = await client.call_tool(tool, arguments, progress_callback=on_progress)
    say(
        structured=field(result, "structuredContent"),
        is_error=bool(field(result, "isError")),
        text="".join(block.text for block in result.content),
        progress=len(progress),
        faults=faults,
    )


async def cancel(client, tool, arguments):
    # The number that 1.x gives to its next request. It tells nothing to the server itself when a call is abandoned.
    number = getattr(client, "_request_id", None)
    with anyio.move_on_after(CANCELLED_AFTER_S) as scope:
        await client.call_tool(tool, arguments)
        faults.append("a call that is to be cancelled returned")
    if MODE == "session":
        params = mcp.types.CancelledNotificationParams(requestId=number)
        note = mcp.types.CancelledNotification(method="notifications/cancelled", params=params)
        await client.send_notification(mcp.types.ClientNotification(note))
    say(cancelled=scope.cancelled_caught, faults=faults)


async def main():
    async with AsyncExitStack() as stack:
        client, version, server = await connect(stack)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            step = json.loads(line)
            if "list" in step:
                await list_tools(client, version, server)
            elif "call" in step:
                await call(client, step["call"], step["arguments"])
            else:
                await cancel(client, step["cancel"], step["arguments"])


anyio.run(main)
