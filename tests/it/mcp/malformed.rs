//! Lines that no good client sends: each is refused with the code of its fault, or ignored, and the server goes on.

use serde_json::{Value, json};

use super::client::Client;
use super::official::Era;
use crate::cli::{assert_code, text};
use crate::observer::Home;
use crate::support::Dice;

const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const UNSUPPORTED_VERSION: i64 = -32_022;

fn home() -> Home {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    home
}

/// The server still answers, and has written nothing that was not asked for.
#[track_caller]
fn assert_alive(client: &mut Client) {
    assert_eq!(client.rest(), Vec::<Value>::new());
}

/// Sends bytes; returns the code of the error and the id that it names.
#[track_caller]
fn code(client: &mut Client, bytes: &[u8]) -> (i64, Value) {
    client.send_raw(bytes);
    let answer = client.next_answer();
    let code = answer["error"]["code"].as_i64();
    let code = code.unwrap_or_else(|| panic!("no error: {answer}"));
    assert_alive(client);
    (code, answer["id"].clone())
}

#[test]
fn what_is_no_request_is_refused_with_its_code() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    let none = Value::Null;
    let deep = "[".repeat(100_000);
    let cases: &[(&[u8], i64, Value)] = &[
        (b"{\"jsonrpc\":\"2.0\",\"id\":901,\n", PARSE_ERROR, none.clone()),
        (b"nonsense\n", PARSE_ERROR, none.clone()),
        (b"\0\0\0\n", PARSE_ERROR, none.clone()),
        (b"{\"jsonrpc\":\"2.0\",\"id\":902,\"method\":\"\xff\xfe\"}\n", PARSE_ERROR, none.clone()),
        (&[deep.as_bytes(), b"\n"].concat(), PARSE_ERROR, none.clone()),
        (b"17\n", INVALID_REQUEST, none.clone()),
        (b"\"text\"\n", INVALID_REQUEST, none.clone()),
        (b"null\n", INVALID_REQUEST, none.clone()),
        (b"{}\n", INVALID_REQUEST, none.clone()),
        (b"[]\n", INVALID_REQUEST, none.clone()),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":903,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":904,\"method\":\"ping\"}]\n",
            INVALID_REQUEST,
            none.clone(),
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n", INVALID_REQUEST, none.clone()),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n", INVALID_REQUEST, none.clone()),
        (b"{\"jsonrpc\":\"2.0\",\"id\":905,\"method\":7}\n", INVALID_REQUEST, json!(905)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"nope\"}\n", METHOD_NOT_FOUND, json!("x")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":906,\"method\":\"tools/call\"}\n", INVALID_PARAMS, json!(906)),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":907,\"method\":\"tools/call\",\"params\":[]}\n",
            INVALID_PARAMS,
            json!(907),
        ),
    ];
    for (bytes, expected, id) in cases {
        let shown: String = text(bytes).chars().take(100).collect();
        assert_eq!(code(&mut client, bytes), (*expected, id.clone()), "{shown}");
    }
    let output = client.end();
    assert_code(&output, 0);
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn methods_and_arguments_that_do_not_exist_are_refused() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    let mut calls = Vec::new();
    for era in Era::ALL {
        client.set_era(era);
        for method in ["resources/list", "prompts/list", "tools", "tools/list/", ""] {
            assert_eq!(
                client.refusal(method, json!({})),
                METHOD_NOT_FOUND,
                "{method}"
            );
        }
        for params in [
            json!({"name": "nope", "arguments": {}}),
            json!({"name": 7}),
            json!({"arguments": {}}),
            json!({"name": "list_panes", "arguments": 7}),
        ] {
            assert_eq!(
                client.refusal("tools/call", params.clone()),
                INVALID_PARAMS,
                "{params}"
            );
        }
        let long = "long".repeat(1 << 18);
        for (tool, arguments) in [
            ("read_output", json!({"pane": long})),
            ("read_output", json!({"pane": "web", "limit": long})),
            ("read_output", json!({"pane": "web", "cursor": long})),
            ("read_output", json!({"pane": "web", long.clone(): 1})),
            ("search_history", json!({"pattern": "x", "since": long})),
            ("wait_for", json!({"pane": "web", "state": [long]})),
            (
                "wait_for",
                json!({"pane": "web", "regex": format!("({long}")}),
            ),
            (
                "wait_for",
                json!({"pane": "web", "text": "x", "timeout_ms": long}),
            ),
        ] {
            let call = client.call(tool, arguments);
            calls.push((call, String::new()));
        }
        assert_eq!(client.refusal(&long, json!({})), METHOD_NOT_FOUND);
        assert_eq!(
            client.refusal("tools/call", json!({"name": long})),
            INVALID_PARAMS
        );
        // A model can correct what it reads as the outcome of its call.
        for (tool, arguments, named) in [
            ("read_output", json!({}), "pane"),
            ("read_output", json!({"pane": 7}), "pane"),
            (
                "read_output",
                json!({"pane": "web", "limit": "many"}),
                "limit",
            ),
            ("read_output", json!({"pane": "web", "limit": -1}), "limit"),
            (
                "read_output",
                json!({"pane": "web", "cursor": "nonsense"}),
                "cursor",
            ),
            ("read_output", json!({"pane": "web", "pain": 1}), "pain"),
            ("read_output", json!({"pane": "nowhere"}), "nowhere"),
            ("read_output", json!({"pane": ""}), "pane"),
            (
                "search_history",
                json!({"pattern": "(", "regex": true}),
                "regular expression",
            ),
            (
                "search_history",
                json!({"pattern": "x", "since": "later"}),
                "since",
            ),
            ("wait_for", json!({"pane": "web"}), "text"),
            ("wait_for", json!({"text": "x"}), "pane"),
            ("wait_for", json!({"pane": "web", "regex": "("}), "regex"),
            (
                "wait_for",
                json!({"pane": "web", "text": "x", "timeout_ms": "soon"}),
                "timeout_ms",
            ),
            (
                "wait_for",
                json!({"pane": "web", "state": ["asleep"]}),
                "asleep",
            ),
            (
                "send_input",
                json!({"pane": "web", "text": "x"}),
                "--allow-input",
            ),
            (
                "send_and_wait",
                json!({"pane": "web", "text": "x", "contains": "y"}),
                "--allow-input",
            ),
        ] {
            let call = client.call(tool, arguments);
            calls.push((call, named.to_owned()));
        }
    }
    // A pane may be about to appear, so that refusals take their time.
    for (call, named) in calls {
        let result = client.result(call);
        assert_eq!(result["isError"], true, "{result}");
        let refused = result["structuredContent"].to_string();
        assert!(refused.contains(&named), "{named}: {refused}");
    }
    assert_alive(&mut client);
    assert_eq!(home.server.screen("web").trim(), "");
    assert_code(&client.end(), 0);
}

#[test]
fn what_needs_no_answer_gets_none() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    for line in [
        "\n",
        "\r\n",
        "   \t \n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":12345}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":{}}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":7}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{\"code\":-1,\"message\":\"no\"}}\n",
    ] {
        client.send_raw(line.as_bytes());
        assert_alive(&mut client);
    }
    // Ends of lines as other systems have them, and several messages in one write.
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r\n\n{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"ping\"}\n");
    let ids = [client.next_answer(), client.next_answer()].map(|answer| answer["id"].clone());
    assert_eq!(ids, ["a", "b"]);
    // A message in many writes.
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"ping\"}\n" {
        client.send_raw(&[*byte]);
    }
    let answer = client.message("the ping", |message| message["id"] == "c");
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_code(&client.end(), 0);
}

#[test]
fn a_line_of_ten_megabytes_is_refused_and_costs_no_more_than_itself() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    let text = "x".repeat(10 << 20);
    let id = client.call("read_output", json!({"pane": text}));
    // A line that is not read to its end has no id.
    let answer = client.next_answer();
    assert!(answer["id"].is_null() || answer["id"] == id, "{answer}");
    assert!(
        answer["error"].is_object() || answer["result"]["isError"] == true,
        "{answer}"
    );
    assert_alive(&mut client);
    client.send_raw(text.as_bytes());
    client.send_raw(b"\n");
    let refused = client.next_answer();
    assert!(refused["error"].is_object(), "{refused}");
    assert_alive(&mut client);
    assert_code(&client.end(), 0);
}

#[test]
fn both_eras_and_no_handshake_at_all_are_answered() {
    let home = home();
    // Requests before `initialize` are answered, or refused; they end nothing.
    let mut client = Client::start(&home, &[]);
    assert_eq!(client.ask("ping", json!({})), json!({}));
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "list_panes", "arguments": {}})),
    ] {
        let id = client.request(method, params);
        client.answer(id);
    }
    for asked in [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "1999-01-01",
        "2026-07-28",
    ] {
        let hello = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = client.ask("initialize", hello);
        let is_known = asked.starts_with("2024") || asked.starts_with("2025");
        let expected = if is_known { asked } else { "2025-11-25" };
        assert_eq!(answer["protocolVersion"], expected, "{answer}");
        assert_eq!(answer["serverInfo"]["name"], "td-observe", "{answer}");
    }
    let setting = client.request("logging/setLevel", json!({"level": "debug"}));
    client.answer(setting);
    // Each request for itself says which era it is of.
    client.connect(Era::PerRequest);
    let calls: Vec<_> = (0..40)
        .map(|number| {
            client.set_era(Era::ALL[number % 2]);
            let tool = client.call("list_panes", json!({}));
            let list = client.request("tools/list", json!({}));
            (number, tool, list)
        })
        .collect();
    for (number, tool, list) in calls {
        for id in [tool, list] {
            let result = client.result(id);
            assert_eq!(
                result["resultType"].is_string(),
                number % 2 == 1,
                "{result}"
            );
        }
    }
    client.set_era(Era::PerRequest);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {}});
    client.send(
        &json!({"jsonrpc": "2.0", "id": "v", "method": "tools/list", "params": {"_meta": meta}}),
    );
    let refused = client.next_answer();
    assert_eq!(refused["error"]["code"], UNSUPPORTED_VERSION, "{refused}");
    assert_eq!(
        refused["error"]["data"]["requested"], "2099-01-01",
        "{refused}"
    );
    assert_eq!(
        refused["error"]["data"]["supported"],
        json!(["2026-07-28"]),
        "{refused}"
    );
    assert_code(&client.end(), 0);
}

#[test]
fn an_id_that_is_used_twice_harms_nothing() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    let call = |tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    client.send(&call("wait_for", json!({"pane": "web", "text": "never"})));
    client.send(&call("list_panes", json!({})));
    let answer = client.next_answer();
    assert_eq!(answer["id"], "same", "{answer}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "same"}}));
    assert_alive(&mut client);
    client.send(&call("list_panes", json!({})));
    let answer = client.next_answer();
    assert_eq!(
        answer["result"]["structuredContent"]["total"], 1,
        "{answer}"
    );
    // An id that has been answered may come again; another type is another id.
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"ping\"}\n");
    assert_eq!(client.next_answer()["id"], "1");
    assert_code(&client.end(), 0);
}

/// Changes some bytes of a line.
fn mutated(line: &str, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = line.as_bytes().to_vec();
    for _ in 0..=dice.roll(3) {
        let at = usize::try_from(dice.roll(bytes.len() as u64)).unwrap();
        let byte = u8::try_from(dice.roll(256)).unwrap();
        match dice.roll(4) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => bytes.truncate(at.max(1)),
            _ => drop(bytes.remove(at)),
        }
    }
    // One line stays one line.
    bytes.retain(|byte| *byte != b'\n');
    bytes.push(b' ');
    bytes.push(b'\n');
    bytes
}

#[test]
fn damaged_messages_are_refused_or_understood() {
    let home = home();
    let mut client = Client::connected(&home, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |tool: &str, arguments: Value| json!({"method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": meta}});
    let whole = [
        json!({"method": "ping"}),
        json!({"method": "tools/list", "params": {"_meta": meta}}),
        json!({"method": "server/discover", "params": {"_meta": meta}}),
        json!({"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        call(
            "list_panes",
            json!({"pane": "web", "needs_you": true, "limit": 3}),
        ),
        call(
            "read_output",
            json!({"pane": "web", "limit": 3, "cursor": "x"}),
        ),
        call(
            "search_history",
            json!({"pattern": "x+", "regex": true, "since": "1h"}),
        ),
        call(
            "wait_for",
            json!({"panes": ["web"], "text": "x", "timeout_ms": 1}),
        ),
        call("send_input", json!({"pane": "web", "keys": ["x"]})),
    ];
    let mut dice = Dice(44);
    for round in 0..60 {
        for (number, message) in whole.iter().enumerate() {
            let mut message = message.clone();
            message["jsonrpc"] = json!("2.0");
            message["id"] = json!(format!("{round} {number}"));
            message["params"]["_meta"]["progressToken"] = message["id"].clone();
            let line = mutated(&message.to_string(), &mut dice);
            client.send_raw(&line);
        }
        // Each answer is checked as it is read.
        client.rest();
    }
    assert_eq!(home.server.screen("web").trim(), "");
    assert_code(&client.end(), 0);
}

#[test]
fn standard_output_has_messages_only_whatever_is_logged() {
    let home = home();
    let socket = home.server.socket().display().to_string();
    let mut command = home.command(&["-vv", "mcp", "-S", &socket, "--allow-input"]);
    command.env("RUST_LOG", "trace");
    let mut client = Client::of(command);
    client.connect(Era::Handshake);
    client.tool("list_panes", json!({}));
    client.tool(
        "send_and_wait",
        json!({"pane": "web", "text": "hello", "contains": "hello"}),
    );
    client.refused("read_output", json!({"pane": "nowhere"}));
    client.send_raw(b"nonsense\n");
    client.next_answer();
    let output = client.end();
    assert_code(&output, 0);
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!output.stderr.is_empty(), "nothing was logged");

    for args in [
        &["mcp", "--nonsense"][..],
        &["mcp", "-S", &socket, "--only", ""],
        &["mcp", "-S", &socket, "--agents", "/nonexistent/agents"],
    ] {
        let output = home.run(args);
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
    assert_code(&home.run(&["mcp", "--nonsense"]), 2);
}
