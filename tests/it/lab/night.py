#!/usr/bin/env python3
"""Reads what agents did in a night from their own files, and prints it as JSON, a line for each conversation.

    night.py [--since TIME] [--until TIME] PATH…

A PATH is a file, or a directory below which the files of Claude Code, Codex, Gemini CLI, Qwen Code and aider are found.
A TIME is RFC 3339 in UTC. This script is the second count for `td-observe report`: it shares no code and no table with the
program, and knows only what the agents were seen to write.

Of a turn: when its prompt was written, when its last answer was, how it ended (`done`, `stopped` by the user, `failed`), and
the beginning of that answer. `ended` is null for a turn that goes on; aider writes no times, so that only `how` shows the
ends of its turns. Tokens are those that the agents state for each answer, without those that Claude Code read from a cache.
"""
import argparse
import json
import os
import re
import sys


def records(path):
    """Yields the JSON objects of a file, one or more on a line; broken ones are left out."""
    decoder = json.JSONDecoder()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            line = line.strip().lstrip("\ufeff\0")
            while line:
                try:
                    value, end = decoder.raw_decode(line)
                except ValueError:
                    break
                if isinstance(value, dict):
                    yield value
                line = line[end:].lstrip()


def texts(content):
    """Returns the texts of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


class Night:
    """What one conversation says of a span of time."""

    def __init__(self, since, until):
        self.since, self.until = since, until
        self.turns, self.errors = [], []
        self.called, self.failed = set(), set()
        self.answers = {}
        # The calls of sub-agents that work in the background: the turn goes on until the last one has reported.
        self.background = set()

    def is_in(self, time):
        return time is None or self.since <= time <= self.until

    def prompt(self, time, text):
        turn = {"began": time, "ended": None, "how": None, "prompt": text.strip()[:60], "summary": ""}
        self.turns.append(turn)

    def answer(self, time, text, how="done"):
        """The last answer of a turn ends it, unless more follows."""
        if self.turns:
            self.turns[-1].update(ended=time, how=how, summary=text.strip()[:60])

    def stopped(self, time):
        self.answer(time, "", "stopped")

    def goes_on(self):
        if self.turns:
            self.turns[-1].update(ended=None, how=None, summary="")

    def tool(self, time, identity):
        if self.is_in(time):
            self.called.add(identity)

    def tool_failed(self, time, identity):
        if self.is_in(time):
            self.failed.add(identity)

    def used(self, time, identity, tokens_in, tokens_out):
        """The tokens of an answer, which may be stated again; the last statement counts."""
        if self.is_in(time):
            self.answers[identity] = (tokens_in or 0, tokens_out or 0)

    def error(self, time, text, ends_turn=True):
        if self.is_in(time):
            self.errors.append(text[:200])
        if ends_turn:
            self.answer(time, "", "failed")

    def report(self, path, agent):
        def of_span(turn):
            # A turn that goes on may be of any later span.
            ended, began = turn["ended"] or "9999", turn["began"] or self.since
            return ended >= self.since and began <= self.until

        return {
            "file": path,
            "agent": agent,
            "turns": [turn for turn in self.turns if of_span(turn)],
            "tokens": {
                "in": sum(count[0] for count in self.answers.values()),
                "out": sum(count[1] for count in self.answers.values()),
            },
            "tools": {"called": len(self.called), "failed": len(self.failed)},
            "errors": self.errors,
        }


# Text that Claude Code writes as the user's, though nobody typed it as a prompt.
NOT_TYPED = ("<command-name>", "<local-command-", "<bash-input>", "<bash-stdout>", "<task-notification>", "Caveat:")


def is_whole(record):
    """Newer versions of Claude Code state why an answer stopped; without that, or before a tool, it goes on."""
    version = [int(number) for number in re.findall(r"\d+", record.get("version") or "")]
    reason = record["message"].get("stop_reason")
    return reason != "tool_use" and (reason is not None or version < [2, 1, 76])


def claude(path, night, is_sub_agent=False):
    for record in records(path):
        time, message = record.get("timestamp"), record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        is_own = not is_sub_agent and not record.get("isSidechain")
        blocks = [block for block in message.get("content") or [] if isinstance(block, dict)]
        for block in blocks:
            if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use"):
                night.tool(time, block["id"])
            if block.get("type") == "tool_result" and block.get("is_error") is True:
                night.tool_failed(time, block["tool_use_id"])
            if block.get("type") == "tool_result" and texts(block.get("content")).startswith("Async agent launched"):
                night.background.add(block["tool_use_id"])
        text = texts(message.get("content"))
        if record["type"] == "assistant":
            if record.get("isApiErrorMessage"):
                night.error(time, text, ends_turn=is_own)
            elif message.get("model") != "<synthetic>":
                usage = message.get("usage") or {}
                night.used(time, message.get("id"), usage.get("input_tokens"), usage.get("output_tokens"))
                has_tool = any(block.get("type") == "tool_use" for block in blocks)
                if is_own and (has_tool or night.background or not is_whole(record)):
                    night.goes_on()
                elif is_own and text.strip():
                    night.answer(time, text)
        elif is_own and not record.get("isMeta") and not record.get("isCompactSummary"):
            if any(block.get("type") == "tool_result" for block in blocks):
                continue
            if text.startswith("<task-notification>"):
                night.background -= set(re.findall(r"<tool-use-id>(.+?)</tool-use-id>", text))
            if text.startswith("[Request interrupted by user"):
                night.stopped(time)
            elif text and not text.lstrip().startswith(NOT_TYPED):
                night.prompt(time, text)
    directory = os.path.join(os.path.splitext(path)[0], "subagents")
    if not is_sub_agent and os.path.isdir(directory):
        for name in sorted(os.listdir(directory)):
            if re.fullmatch(r"agent-.+\.jsonl", name):
                claude(os.path.join(directory, name), night, is_sub_agent=True)


def codex(path, night):
    total, has_prompt = None, False
    for number, record in enumerate(records(path)):
        time, body = record.get("timestamp"), record.get("payload")
        if not isinstance(body, dict):
            continue
        kind = body.get("type")
        if record.get("type") == "event_msg":
            if kind in ("task_started", "turn_started"):
                has_prompt = False
            elif kind == "user_message" or (
                kind == "item_completed" and (body.get("item") or {}).get("type") == "UserMessage"
            ):
                text = body.get("message") or texts((body.get("item") or {}).get("content"))
                if text and not has_prompt:
                    has_prompt = True
                    night.prompt(time, text)
            elif kind in ("task_complete", "turn_complete"):
                if has_prompt:
                    night.answer(time, body.get("last_agent_message") or "")
                if isinstance(body.get("error"), dict):
                    night.error(time, body["error"].get("message", ""))
            elif kind == "turn_aborted" and has_prompt:
                night.stopped(time)
            elif kind == "exec_command_end" and body.get("exit_code"):
                night.tool_failed(time, body.get("call_id"))
            elif kind == "token_count" and isinstance(body.get("info"), dict):
                usage = body["info"].get("total_token_usage") or {}
                if usage.get("total_tokens") != total:
                    total = usage.get("total_tokens")
                    last = body["info"].get("last_token_usage") or {}
                    night.used(time, number, last.get("input_tokens"), last.get("output_tokens"))
        elif record.get("type") == "response_item":
            identity = body.get("call_id") or body.get("id") or number
            if kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
                night.tool(time, identity)
            elif kind in ("function_call_output", "custom_tool_call_output"):
                output = body.get("output")
                output = output if isinstance(output, str) else texts(output)
                head = output.split("\nOutput:", 1)[0]
                code = re.search(r"^(?:Exit code: |Process exited with code )(-?\d+)", head, re.M)
                if code is None and output.startswith("{"):
                    code = re.search(r'"exit_code": ?(-?\d+)', output)
                if code is not None and code[1] != "0":
                    night.tool_failed(time, identity)


def gemini(path, night):
    # The last version of a message counts, at the place of the first.
    messages = {}
    for record in records(path):
        changes = record.get("$set")
        new = changes.get("messages") or [] if isinstance(changes, dict) else [record]
        for message in new:
            if isinstance(message, dict) and message.get("id") and message.get("type"):
                messages[message["id"]] = message
    for identity, message in messages.items():
        time, text = message.get("timestamp"), texts(message.get("content"))
        if message["type"] == "user":
            if text.strip() and not text.startswith("<session_context>"):
                night.prompt(time, text)
        elif message["type"] == "gemini":
            tokens = message.get("tokens") or {}
            night.used(time, identity, tokens.get("input"), tokens.get("output"))
            calls = message.get("toolCalls") or []
            for call in calls:
                night.tool(time, call["id"])
                if call.get("status") in ("error", "cancelled"):
                    night.tool_failed(time, call["id"])
            if calls:
                night.goes_on()
            elif text.strip():
                night.answer(time, text)
        elif message["type"] == "error":
            night.error(time, text)
        elif text == "Request cancelled.":
            night.stopped(time)


def qwen(path, night):
    for number, record in enumerate(records(path)):
        time, kind = record.get("timestamp"), record.get("type")
        parts = (record.get("message") or {}).get("parts") or []
        if kind == "user":
            text = "\n".join(part.get("text", "") for part in parts)
            if text.strip():
                night.prompt(time, text)
        elif kind == "assistant":
            usage = record.get("usageMetadata") or {}
            night.used(time, number, usage.get("promptTokenCount"), usage.get("candidatesTokenCount"))
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            for call in calls:
                night.tool(time, call.get("id"))
            text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
            if calls:
                night.goes_on()
            elif text.strip():
                night.answer(time, text)
        elif kind == "tool_result":
            if (record.get("toolCallResult") or {}).get("status", "success") != "success":
                for part in parts:
                    night.tool_failed(time, (part.get("functionResponse") or {}).get("id"))
        elif kind == "system":
            event = (record.get("systemPayload") or {}).get("uiEvent") or {}
            is_own = re.search(r"########\d+$", event.get("prompt_id") or "########0")
            if event.get("event.name") == "qwen-code.api_error" and is_own:
                night.error(time, event.get("error_message") or "")


def count(text):
    return int(float(text[:-1]) * 1000) if text.endswith("k") else int(text)


def aider(path, night):
    # Nothing but the beginning of a session has a time.
    reply, prompt = [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            line = line.rstrip("\n")
            if line.startswith("#### "):
                prompt.append(line[5:].strip())
                continue
            if prompt and not re.match(r"/(?!ask|code|architect|context|lint|test)", prompt[0]):
                if prompt != ["<blank>"]:
                    night.prompt(None, "\n".join(prompt))
                    reply = []
            prompt = []
            usage = re.match(r"> Tokens: (\S+) sent,.*?(\S+) received\.", line)
            if usage:
                night.used(None, number, count(usage[1]), count(usage[2]))
                night.answer(None, "\n".join(reply))
                reply = []
            elif re.match(r"> litellm\.\w+(Error|Exception)", line):
                night.error(None, line[2:].strip())
            elif not line.startswith("> ") and (line.strip() or reply):
                reply.append(line)


KINDS = [
    (r"/projects/[^/]+/[^/]+\.jsonl$", "claude", claude),
    (r"/rollout-[^/]*\.jsonl$", "codex", codex),
    (r"/chats/session-[^/]*\.jsonl$", "gemini", gemini),
    (r"/projects/[^/]+/chats/[^/]+\.jsonl$", "qwen", qwen),
    (r"/\.aider\.chat\.history\.md$", "aider", aider),
]


def files(path):
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description="Reads what agents did in a night from their own files.")
    parser.add_argument("--since", default="")
    parser.add_argument("--until", default="9999")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    for path in (file for path in arguments.paths for file in files(path)):
        for pattern, agent, read in KINDS:
            if re.search(pattern, os.path.abspath(path)):
                night = Night(arguments.since, arguments.until)
                read(path, night)
                json.dump(night.report(path, agent), sys.stdout, ensure_ascii=False)
                print()
                break


if __name__ == "__main__":
    main()
