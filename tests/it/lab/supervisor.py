"""supervisor.py PORT MOCK TRANSCRIPT: the lab's stand-in for models, with the scenes of an agent that supervises others.

SCN:supervise uses the tools of `td-observe mcp`, SCN:skill its command line. What a call needs, such as the id of a
question, is taken from the results of earlier calls, as a model would. Each result and each call is a line of
TRANSCRIPT.
"""
import importlib.util
import json
import re
import sys
import threading
from http.server import ThreadingHTTPServer

PORT, MOCK, TRANSCRIPT = sys.argv[1:]
transcript = open(TRANSCRIPT, "a", buffering=1)

# The stand-in serves as soon as it is imported: it is held until its scenes are complete.
servers = []
serve_forever = ThreadingHTTPServer.serve_forever
ThreadingHTTPServer.serve_forever = lambda server: servers.append(server)
sys.argv = [MOCK, PORT]
spec = importlib.util.spec_from_file_location("mock", MOCK)
mock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mock)

conversation = threading.local()
scenario, plan, messages_of = mock.scenario, mock.plan, mock.norm_anthropic


def remembering_messages(request):
    """Keeps the whole request: what a skill says arrives beside its result."""
    conversation.request = json.dumps(request)
    return messages_of(request)


def remembering_scenario(messages):
    """Keeps the results of this request's tools, beside those that other agents ask with."""
    begun = max((at for at, (role, text) in enumerate(messages) if role == "user" and "SCN:" in text), default=0)
    conversation.results = [text for role, text in messages[begun:] if role == "tool"]
    return scenario(messages)


def json_in(text):
    """The first JSON object in a result; agents put words of their own around it."""
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def consent(choices):
    """The key of the choice that allows it this once."""
    return next(choice["key"] for choice in choices if re.match("yes|allow", choice["label"], re.I))


def tool_call(tools, name, arguments):
    """A call of a tool by the name under which this agent knows it."""
    known = next((tool for tool in sorted(tools) if re.search(rf"(^|[^a-z]){name}$", tool)), name)
    return ("tool", known, arguments)


def supervise(results, tools):
    """The next call of an agent that has the tools of MCP."""
    if "ToolSearch" in tools:
        # Claude Code gives the model the tools of servers only when it looks for them.
        if not results:
            return tool_call(tools, "ToolSearch", {"query": "+td-observe", "max_results": 10})
        results = results[1:]
    step = len(results)
    if step == 0:
        return tool_call(tools, "list_panes", {})
    panes = {pane["name"]: pane for pane in json_in(results[0])["panes"] if "exit_status" not in pane}
    if step == 1:
        return tool_call(tools, "wait_for", {"pane": panes["job"]["pane"], "exit": True, "timeout_ms": 40000})
    if step == 2:
        return tool_call(tools, "read_output", {"pane": panes["job"]["id"], "limit": 5})
    asking = panes["agent"]["pane"]
    if step == 3:
        return tool_call(tools, "wait_for", {"pane": asking, "state": ["waiting"], "timeout_ms": 40000})
    if step == 4:
        question = json_in(results[3])["question"]
        arguments = {"pane": asking, "text": consent(question["choices"]), "answers": question["id"]}
        return tool_call(tools, "send_input", arguments)
    if step == 5:
        return tool_call(tools, "wait_for", {"pane": asking, "state": ["done", "idle"], "timeout_ms": 40000})
    return None


def skill(results, tools):
    """The next call of an agent that has read the skill."""
    step = len(results)
    if step == 0:
        return tool_call(tools, "Skill", {"skill": "td-observe"})
    if step == 1:
        if "td-observe status --json" not in conversation.request:
            raise ValueError("the skill has not arrived")
        return shell(tools, "td-observe status --json")
    rows = {row["name"]: row for row in json_lines(results[1]) if not row["ended"]}
    if step == 2:
        return shell(tools, f"td-observe wait {rows['job']['pane']} --exit --timeout 40s")
    if step == 3:
        return shell(tools, f"td-observe log {rows['job']['name']} -n 5")
    asking = rows["agent"]["pane"]
    if step == 4:
        return shell(tools, f"td-observe status --json {asking}")
    if step == 5:
        row = json_lines(results[4])[0]
        key = consent(row["dialogue"]["choices"])
        return shell(tools, f"td-observe ask {asking} {key} --answers {row['question_id']}")
    return None


def shell(tools, command):
    return tool_call(tools, "Bash", {"command": command, "description": "Runs td-observe"})


def supervising_plan(scene, step, api, tools):
    if scene not in ("supervise", "skill"):
        return plan(scene, step, api, tools)
    results = conversation.results
    try:
        call = {"supervise": supervise, "skill": skill}[scene](results, tools)
    except Exception as error:
        call = ("text", f"I do not understand this: {error!r}", 0.1)
    line = {"scene": scene, "step": step, "result": results[-1] if results else None, "call": call}
    transcript.write(json.dumps(line) + "\n")
    return [call or ("text", "All has been done.", 0.1)]


responses = mock.H.a_resp


def namespaced_responses(handler, request, acts):
    """Codex gives the model the tools of each server in a namespace, which its calls must name."""
    for space in request.get("tools") or []:
        if space.get("type") == "namespace":
            handler.ns.update({tool["name"]: (space["name"], "function") for tool in space["tools"]})
    return responses(handler, request, acts)


mock.scenario, mock.plan, mock.norm_anthropic = remembering_scenario, supervising_plan, remembering_messages
mock.H.a_resp = namespaced_responses
serve_forever(*servers)
