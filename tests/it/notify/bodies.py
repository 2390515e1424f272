#!/usr/bin/env python3
"""Checks recorded requests of the channels against the documentation of Telegram's Bot API and of ntfy, and the
signatures of webhooks; a second implementation, which knows none of the program's code.

Standard input: {"secret", "token", "topic", "chat", "requests": [{"channel", "about", "method", "path", "headers",
"body_hex"}]}, where "about" is the notification that the request is about: {"id", "update", "items": [{"news", "name",
"text", "dialogue", "question_id", "choices": [{"key", "label"}], "settled"}]}, or null.
Exit status 0 if all requests are right; 1 with one line for each fault.
"""

import hashlib
import hmac
import json
import re
import sys

FAULTS = []


def fault(where, what):
    FAULTS.append(f"{where}: {what}")


def units(text):
    """Telegram counts UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


class Text:
    """A string of a length in UTF-16 units or, if `is_bytes`, in UTF-8 bytes."""

    def __init__(self, least, most, is_bytes=False):
        self.least, self.most, self.is_bytes = least, most, is_bytes

    def check(self, where, value):
        if not isinstance(value, str):
            return fault(where, f"{value!r} is no string")
        length = len(value.encode()) if self.is_bytes else units(value)
        if not self.least <= length <= self.most:
            fault(where, f"has the length {length}")


class Int:
    def __init__(self, least, most):
        self.least, self.most = least, most

    def check(self, where, value):
        if not is_int(value) or not self.least <= value <= self.most:
            fault(where, f"{value!r} is no integer from {self.least} to {self.most}")


class Bool:
    def check(self, where, value):
        if not isinstance(value, bool):
            fault(where, f"{value!r} is no boolean")


class Either:
    def __init__(self, *kinds):
        self.kinds = kinds

    def check(self, where, value):
        before = len(FAULTS)
        for kind in self.kinds:
            start = len(FAULTS)
            kind.check(where, value)
            if len(FAULTS) == start:
                del FAULTS[before:]
                return


class Pattern:
    def __init__(self, pattern):
        self.pattern = re.compile(pattern)

    def check(self, where, value):
        if not isinstance(value, str) or not self.pattern.fullmatch(value):
            fault(where, f"{value!r} is not {self.pattern.pattern}")


class List:
    def __init__(self, kind, most):
        self.kind, self.most = kind, most

    def check(self, where, value):
        if not isinstance(value, list) or len(value) > self.most:
            return fault(where, "is no list, or too long")
        for number, entry in enumerate(value):
            self.kind.check(f"{where}[{number}]", entry)


class Object:
    """An object with required and optional fields, and no others."""

    def __init__(self, required, optional=None):
        self.required, self.optional = required, optional or {}

    def check(self, where, value):
        if not isinstance(value, dict):
            return fault(where, "is no object")
        for name in self.required:
            if name not in value:
                fault(where, f"lacks {name}")
        for name, entry in value.items():
            kind = self.required.get(name) or self.optional.get(name)
            if kind is None:
                fault(where, f"has the unknown field {name}")
            else:
                kind.check(f"{where}.{name}", entry)


# Telegram's Bot API 10.1. Of the fields that it documents, those that this program may use.
INT64 = Int(-(2**63), 2**63 - 1)
# "Unique identifier for the target chat or username ... in the format @username"
CHAT_ID = Either(INT64, Pattern(r"@[A-Za-z0-9_]+"))
# LinkPreviewOptions
PREVIEW = Object({}, {"is_disabled": Bool(), "url": Text(0, 2048), "show_above_text": Bool()})
# InlineKeyboardButton: "Exactly one of the fields other than text ..."; callback_data "1-64 bytes"
BUTTON = Object({"text": Text(1, 64), "callback_data": Text(1, 64, is_bytes=True)})
# InlineKeyboardMarkup: "Array of button rows"
KEYBOARD = Object({"inline_keyboard": List(List(BUTTON, 8), 100)})
METHODS = {
    # text: "1-4096 characters after entities parsing"
    "sendMessage": Object(
        {"chat_id": CHAT_ID, "text": Text(1, 4096)},
        {"link_preview_options": PREVIEW, "reply_markup": KEYBOARD, "disable_notification": Bool()},
    ),
    "editMessageText": Object(
        {"chat_id": CHAT_ID, "message_id": INT64, "text": Text(1, 4096)},
        {"link_preview_options": PREVIEW, "reply_markup": KEYBOARD},
    ),
    # limit: "Values between 1-100 are accepted"; timeout: "Should be positive"
    "getUpdates": Object(
        {},
        {
            "offset": INT64,
            "limit": Int(1, 100),
            "timeout": Int(1, 50),
            "allowed_updates": List(Pattern("message|callback_query"), 10),
        },
    ),
    # text: "0-200 characters"
    "answerCallbackQuery": Object(
        {"callback_query_id": Text(1, 64)},
        {"text": Text(0, 200), "show_alert": Bool(), "cache_time": Int(0, 86400)},
    ),
}

# ntfy: "Publish as JSON", the table of the fields. Topics and sequence ids: letters, digits, "-" and "_", at most 64.
NAME = Pattern(r"[-_A-Za-z0-9]{1,64}")
URL = Pattern(r"https?://\S+")
# "view" opens a URL, which it must have.
ACTION = Object(
    {"action": Pattern("view"), "label": Text(1, 100), "url": URL},
    {"clear": Bool()},
)
PUBLICATION = Object(
    {"topic": NAME},
    {
        # "Each message can be up to 4,096 bytes long"
        "message": Text(1, 4096, is_bytes=True),
        "title": Text(1, 1024),
        "tags": List(Pattern(r"[a-z0-9_+-]+"), 5),
        # "one of: 1, 2, 3, 4, or 5"
        "priority": Int(1, 5),
        # "up to three user actions"
        "actions": List(ACTION, 3),
        "click": URL,
        "icon": URL,
        "markdown": Bool(),
        "sequence_id": NAME,
    },
)
# The priority of what is open, the most urgent first: 4 is "high", 3 "default", 2 "low".
PRIORITIES = {"waiting": 4, "error": 4, "failed": 4, "limited": 3, "suspended": 3, "done": 3, "ended": 2}
LISTED = 8


def open_items(about):
    return [item for item in about["items"] if item["settled"] is None]


def expect(where, what, found, wanted):
    if found != wanted:
        fault(where, f"{what} is {found!r} instead of {wanted!r}")


def check_text(where, about, text):
    """The names of the listed items are in the text, and what has become of them."""
    for item in about["items"][:LISTED]:
        if item["name"] not in text:
            fault(where, f"does not name {item['name']}")
        if item["settled"] and f"[{item['settled']}]" not in text and len(about["items"]) == 1:
            fault(where, f"does not say that it is {item['settled']}")
    if len(about["items"]) == 1:
        body = about["items"][0]["dialogue"] or about["items"][0]["text"] or ""
        if body.strip()[:100] not in text:
            fault(where, "does not contain the text")


def check_telegram(where, request, setting, body):
    match = re.fullmatch(r"/bot([^/]+)/(\w+)", request["path"])
    if not match or match[1] != setting["token"] or match[2] not in METHODS:
        return fault(where, "is no method of this bot")
    expect(where, "the HTTP method", request["method"], "POST")
    METHODS[match[2]].check(where, body)
    about = request["about"]
    if match[2] == "getUpdates":
        expect(where, "allowed_updates", body.get("allowed_updates"), ["callback_query"])
    if match[2] not in ("sendMessage", "editMessageText") or about is None:
        return
    expect(where, "chat_id", body.get("chat_id"), setting["chat"])
    expect(where, "the preview", body.get("link_preview_options"), {"is_disabled": True})
    text = body.get("text", "")
    check_text(where, about, text)
    # A button for each choice of each open question, in order, one a line.
    wanted = []
    for item in about["items"][:LISTED]:
        if item["settled"] is None and item["question_id"] and item["text"] is not None:
            prefix = "" if len(about["items"]) == 1 else item["name"] + ": "
            wanted += [prefix + choice["label"] for choice in item["choices"] if choice["key"]]
    rows = (body.get("reply_markup") or {"inline_keyboard": []})["inline_keyboard"]
    if any(len(row) != 1 for row in rows):
        fault(where, "a row of the keyboard has not one button")
    labels = [button["text"] for row in rows for button in row]
    expect(where, "the number of buttons", len(labels), len(wanted))
    for label, want in zip(labels, wanted):
        if label != want and not (label.endswith("…") and want.startswith(label[:-1])):
            fault(where, f"the button {label!r} should be {want!r}")
    data = [button.get("callback_data", "") for row in rows for button in row]
    expect(where, "the number of different buttons", len(set(data)), len(data))
    if any(not entry.startswith(about["id"] + ".") for entry in data):
        fault(where, "a button does not name its message")


def check_ntfy(where, request, setting, body):
    headers = dict(request["headers"])
    expect(where, "authorization", headers.get("authorization"), "Bearer " + setting["token"])
    about = request["about"]
    if request["method"] == "PUT":
        # "Clearing notifications": PUT /TOPIC/SEQUENCE_ID/clear
        expect(where, "the path", request["path"], f"/{setting['topic']}/{about['id']}/clear")
        expect(where, "the number of open items", len(open_items(about)), 0)
        return
    # "you must PUT/POST to the ntfy root URL"
    expect(where, "the request", (request["method"], request["path"]), ("POST", "/"))
    PUBLICATION.check(where, body)
    if len(request["body_hex"]) // 2 > 2 * 4096:
        fault(where, "the server refuses a body of more than twice a message")
    expect(where, "topic", body.get("topic"), setting["topic"])
    if about is None:
        return
    expect(where, "sequence_id", body.get("sequence_id"), about["id"])
    check_text(where, about, body.get("title", "") + "\n" + body.get("message", ""))
    wanted = max((PRIORITIES[item["news"]] for item in open_items(about)), default=2)
    expect(where, "priority", body.get("priority"), 2 if about["update"] else wanted)


def check_webhook(where, request, setting, body):
    headers = dict(request["headers"])
    expect(where, "the HTTP method", request["method"], "POST")
    raw = bytes.fromhex(request["body_hex"])
    digest = hmac.new(setting["secret"].encode(), raw, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(headers.get("x-td-signature", ""), "sha256=" + digest):
        fault(where, "the signature is wrong")
    event = body.get("event", {})
    expect(where, "the id", headers.get("x-td-event-id"), event.get("id"))
    about = request["about"]
    if about is None:
        return
    expect(where, "notification", event.get("notification"), about["id"])
    entries = [event] + event.get("more", [])
    if about["update"]:
        expect(where, "resolved", event.get("resolved"), True)
        expect(where, "the number of items", len(entries), 1)
        names = [item["name"] for item in about["items"] if item["settled"]]
        if event.get("session") not in names or not event.get("settled"):
            fault(where, "is about no settled item")
    else:
        names = [item["name"] for item in about["items"]]
        expect(where, "the items", [entry.get("session") for entry in entries], names)
        states = [item["news"] for item in about["items"]]
        expect(where, "the states", [entry.get("state") for entry in entries], states)
        if "resolved" in event:
            fault(where, "is resolved")


CHECKS = {"telegram": check_telegram, "ntfy": check_ntfy, "webhook": check_webhook}


def main():
    setting = json.load(sys.stdin)
    for number, request in enumerate(setting["requests"]):
        where = f"{number} {request['channel']} {request['method']}"
        raw = bytes.fromhex(request["body_hex"])
        headers = dict(request["headers"])
        expect(where, "content-type", headers.get("content-type"), "application/json")
        expect(where, "content-length", headers.get("content-length"), str(len(raw)))
        try:
            body = json.loads(raw.decode("utf-8")) if raw else {}
        except ValueError as error:
            fault(where, f"is no JSON: {error}")
            continue
        CHECKS[request["channel"]](where, request, setting, body)
    for line in FAULTS:
        print(line)
    print(f"{len(setting['requests'])} requests, {len(FAULTS)} faults")
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
