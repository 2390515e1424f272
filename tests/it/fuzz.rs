//! The bodies of the fuzz targets (`tests/fuzz`) on random bytes and on the corpus, so that every test
//! run includes them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../fuzz/bodies/agent.rs"]
mod agent;
#[path = "../fuzz/bodies/api.rs"]
mod api;
#[path = "../fuzz/bodies/config.rs"]
mod config;
#[path = "../fuzz/bodies/cut.rs"]
pub mod cut;
#[path = "../fuzz/bodies/envelope.rs"]
mod envelope;
#[path = "../fuzz/bodies/hook.rs"]
mod hook;
#[path = "../fuzz/bodies/log_tail.rs"]
mod log_tail;
#[cfg(feature = "mcp")]
#[path = "../fuzz/bodies/mcp.rs"]
mod mcp;
#[path = "../fuzz/bodies/program_status.rs"]
mod program_status;
#[path = "../fuzz/bodies/query.rs"]
mod query;
#[path = "../fuzz/bodies/reader.rs"]
mod reader;
#[path = "../fuzz/bodies/redact.rs"]
mod redact;
#[cfg(feature = "hosts")]
#[path = "../fuzz/bodies/remote.rs"]
mod remote;
#[cfg(feature = "report")]
#[path = "../fuzz/bodies/report.rs"]
pub mod report;
#[path = "../fuzz/bodies/stream.rs"]
mod stream;
#[path = "../fuzz/bodies/target.rs"]
mod target;
#[cfg(feature = "serve")]
#[path = "../fuzz/bodies/tcp.rs"]
mod tcp;
#[path = "../fuzz/bodies/tmux.rs"]
mod tmux;
#[path = "../fuzz/bodies/tracker.rs"]
mod tracker;

/// Initial lines: random bytes alone never form JSON.
const LINES: &str = r#"{"seq":0,"ts":"2026-01-21T10:00:00.000000Z","event":{"type":"LogOpened","execution_id":"a","schema":1,"version":"0","host":"h","pid":1,"first_seq":1}}
{"seq":1,"ts":"2026-01-21T10:00:01.000001Z","event":{"type":"OutputUpdate","execution_id":"a","pane":"%1","first_line":-3,"chunk":"one\n\u001b[0mtwo\n","is_complete":false}}
{"seq":2,"ts":"2026-01-21T10:00:01.5Z","n":2,"event":{"execution_id":"a","type":"OutputGap","pane":"%1","first_line":1,"lost_lines":18446744073709551615,"reason":"cleared"},"more":[1.5,{}]}
{"seq":9,"ts":"2026-01-21T10:00:02Z","event":{"type":"LogGap","execution_id":"a","first_seq":3,"last_seq":9}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"LoopStarted","execution_id":"a","loop_type":"Phase","task":"x","new":null}}
{"seq":10,"ts":"2026-01-21T10:00:04Z","event":{"type":"Unheard","execution_id":"a","deep":[[[]]]}}
{"seq":11,"ts":"2026-01-21T10:00:05Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ValidationFailed":{"exit_code":1}}}}
"#;

/// Some of those lines, with a few bytes overwritten, removed, inserted, cut off or doubled.
fn damaged(lines_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&str> = LINES.split_inclusive('\n').collect();
    let chosen = vec(any::<prop::sample::Index>(), 1..=lines_max);
    let byte = prop_oneof![
        any::<u8>(),
        proptest::sample::select(b"{}[]\",:\\0-9.e\nu \0".to_vec())
    ];
    let hurt = (0..6u8, any::<prop::sample::Index>(), byte, 0..40usize);
    (chosen, vec(hurt, 0..4)).prop_map(move |(chosen, hurts)| {
        let mut bytes: Vec<u8> = chosen
            .iter()
            .flat_map(|at| at.get(&lines).bytes())
            .collect();
        for (kind, at, byte, count) in hurts {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            let end = (at + count).min(bytes.len());
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..end)),
                3 => bytes.truncate(at),
                4 => {
                    let doubled = bytes[at..end].to_vec();
                    bytes.splice(at..at, doubled);
                }
                _ => {}
            }
        }
        bytes
    })
}

/// Prints failures as the bytes to feed, and keeps no files beside the tests.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Output of a program: text, control sequences, or any bytes.
fn printed() -> impl Strategy<Value = Vec<u8>> {
    let sequences: Vec<&[u8]> = vec![
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b"\x08",
        b"\x1b[H",
        b"\x1b[2J",
        b"\x1b[3J",
        b"\x1b[K",
        b"\x1b[2A",
        b"\x1b[5;9r",
        b"\x1b[r",
        b"\x1bM",
        b"\x1b[4L",
        b"\x1b[3M",
        b"\x1b[7P",
        b"\x1b[6@",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[?7l",
        b"\x1b[4h",
        b"\x1bc",
        b"\x1b[9999B",
        b"\x1b[20b",
        b"\x1b7",
        b"\x1b8",
        b"\x1b]133;A\x07",
        b"\x1b]133;C\x07",
        b"\x1b]133;D;3\x07",
        b"\x1b]2;",
        b"\x1b[38;5;",
        b"\xe6\xbc\xa2",
        b"\xcc\x81",
        b"\xf0\x9f\x91\xa9\xe2\x80\x8d",
        b"\xff",
        b"\0",
    ];
    prop_oneof![
        4 => "[a-z ]{1,30}".prop_map(String::into_bytes),
        4 => proptest::sample::select(sequences).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..9),
    ]
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn tracker_on_any_captures(bytes in vec(any::<u8>(), 0..500)) {
        tracker::run(&bytes);
    }

    #[test]
    fn stream_on_any_bytes(head in any::<[u8; 3]>(), parts in vec(printed(), 0..60)) {
        stream::run(&[&head[..], &parts.concat()].concat());
    }

    #[test]
    fn envelope_on_damaged_lines(bytes in damaged(1)) {
        envelope::run(bytes.trim_ascii_end());
    }

    #[test]
    fn envelope_on_any_bytes(bytes in any::<Vec<u8>>()) {
        envelope::run(&bytes);
    }

    #[test]
    fn target_on_any_text(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        target::run(text.as_bytes());
        target::run(&bytes);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn log_tail_on_damaged_files(bytes in damaged(12)) {
        log_tail::run(&bytes);
    }

    #[test]
    fn log_tail_on_any_bytes(bytes in any::<Vec<u8>>()) {
        log_tail::run(&bytes);
    }
}

/// Lines of files that configure the program.
const CONFIGURATION: &[&str] = &[
    "[[rule]]\n",
    "[[state]]\n",
    "[[agent]]\n",
    "[[asks]]\n",
    "[[phase]]\n",
    "name = \"a\"\n",
    "task = \"do it\"\n",
    "check = \"true\"\n",
    "max_iterations = 3\n",
    "regex = '[a-z]+(b|c)*'\n",
    "prefix = \"tok_\"\n",
    "hints = [\"x\", '^y']\n",
    "state = \"waiting\"\n",
    "= \u{1b}\n",
    "# Title\n",
    "## Phase\n",
    "Check: `make`\n",
    "Max iterations: 9\n",
    "```\n",
];

proptest! {
    // Each case compiles the rules again.
    #![proptest_config(cases(200))]

    #[test]
    fn configuration_of_any_text(
        kind in 0_u8..4,
        parts in vec(prop_oneof![
            8 => proptest::sample::select(CONFIGURATION).prop_map(str::to_owned),
            1 => any::<String>(),
        ], 0..12),
    ) {
        config::run(&[&[kind], parts.concat().as_bytes()].concat());
    }
}

/// Generates queries for a reader of logs, as `bodies/reader.rs` parses them.
fn query() -> impl Strategy<Value = Vec<u8>> {
    let patterns = vec![
        "", "one|x", "^t", r"\x1b", "a\"?", "(?i)LINE", r"\w+\s*$", "ten\\",
    ];
    let how = (b'@'..b'@' + 64, any::<u8>(), b'0'..b'0' + 80);
    (how, proptest::sample::select(patterns)).prop_map(|((asked, pick, split), pattern)| {
        [
            &[asked, if pick == b'\n' { 0 } else { pick }, split],
            pattern.as_bytes(),
            b"\n",
        ]
        .concat()
    })
}

/// Text that contains secret-like parts.
const SECRETS: &[&str] = &[
    "sk-ant-",
    "sk-",
    "ghp_",
    "AKIA",
    "password=",
    "\"token\": \"",
    "Bearer ",
    "://u:",
    "@",
    "[redacted:x]",
    "[redacted:",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "│",
    "\n",
    " ",
    "0123456789abcdefABCDEF",
    "é",
];

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn reader_on_damaged_files(how in query(), bytes in damaged(12)) {
        reader::run(&[how, bytes].concat());
    }

    #[test]
    fn reader_on_any_bytes(how in query(), bytes in any::<Vec<u8>>()) {
        reader::run(&[how, bytes].concat());
    }

    #[test]
    fn query_on_any_text(
        how in any::<u8>(),
        pattern in r#"([ab.^$|]|\\[nbswW"/]|\(b|[a/]\)|\[\^a\]|[+*?]){0,6}"#,
        text in r#"[ab/\\"\n\t\x0c\x1b é😀]{0,12}"#,
    ) {
        query::run(&[&[how], pattern.as_bytes(), b"\n", text.as_bytes()].concat());
    }
}

/// Records of agents, and possible text between them.
const AGENTS: &[&str] = &[
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\"}]},\"session_id\":\"s\"}",
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}\n",
    "{\"type\":\"user\",\"isSidechain\":false,\"message\":{\"content\":\"p\"},\"sessionId\":\"s\"}\n",
    "{\"type\":\"turn.started\"}\n",
    "{\"type\":\"event_msg\",\"payload\":{\"type\":\"task_started\"}}\n",
    "{\"type\":\"tool_use\",\"tool_id\":\"t\"}\r\n",
    "{\"id\":\"1\",\"type\":\"gemini\",\"content\":\"x\"}\n",
    "data: {\"type\":\"message_delta\",\"delta\":{}}\n\n",
    "data: {\"object\":\"chat.completion.chunk\",\"id\":\"1\",\"choices\":[{\"finish_reason\":\"stop\"}]}\r\r",
    "data: [DONE]\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
    "\n",
    "\0",
    "{\"",
    "}",
    "x",
];

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn agent_on_records(how in any::<[u8; 2]>(), parts in vec(proptest::sample::select(AGENTS), 0..12)) {
        agent::run(&[&how, parts.concat().as_bytes()].concat());
    }

    #[test]
    fn agent_on_any_bytes(how in any::<[u8; 2]>(), bytes in any::<Vec<u8>>()) {
        agent::run(&[&how[..], &bytes].concat());
    }

    #[test]
    fn redact_on_texts_with_secrets(how in any::<[u8; 3]>(), parts in vec(proptest::sample::select(SECRETS), 0..20)) {
        redact::run(&[&how, parts.concat().as_bytes()].concat());
    }

    #[test]
    fn redact_on_any_bytes(how in any::<[u8; 3]>(), text in any::<String>(), bytes in any::<Vec<u8>>()) {
        redact::run(&[&how, text.as_bytes()].concat());
        redact::run(&[&how[..], &bytes].concat());
    }
}

/// Parts of what tmux prints for captures and listings; the marks are fixed.
const TMUX: &[&str] = &[
    "NNh%7 $3 @2 9 0 0 1 1 5 2 1 2000 2 1 0   0 0   1 0 5 0",
    "NNh%7 $3 @2 9 0 0 1 1 4294967295 4294967295 4294967295 1 9 9 1 4294967295 4294967295 0 1 3  1 1 5 1",
    "NNr42 1768989600\n",
    "NNr42\n12345\n67\n\n1234567\n\n",
    "NNs\nab\nNNt\nab\n",
    "NNm0 0 1\nNNc\n\\033[3\nNNp0\n",
    "NNs42 1768989600 3.5a 1768989601NNk/tmp/s\nNNe\n",
    "NNp%1 $0 @0 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5 0NNnaNNwnbNNccNNtd\nNNe\n",
    "NNp%1 $1 @0 9 0 0 1 1 80 24 0 2000 0 0 0   0 0   1 0 5 0NNnaNNwnbNNccNNtd\nNNe\n",
    "NNz\n",
    "\0",
    "42 1768989600 1768989602\n",
    "%1 $0 90 24 7 1 2 0 1 3  11 6 0 a title\n",
    "漢\u{301}\n",
    " ",
    "\n",
    "NN",
];

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn tmux_on_parts_of_output(how in any::<[u8; 2]>(), parts in vec(prop_oneof![
        8 => proptest::sample::select(TMUX).prop_map(str::to_owned),
        1 => any::<String>(),
    ], 0..10)) {
        tmux::run(&[&how, parts.concat().as_bytes()].concat());
    }
}

/// Parts of hook inputs, and of the files that store them.
const HOOKS: &[&str] = &[
    "{\"session_id\":\"s\",\"hook_event_name\":\"Stop\"}\n",
    "{\"session_id\":\"s\",\"hook_event_name\":\"PermissionRequest\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"a\\nb\"}}\n",
    "{\"session_id\":\"s\",\"hook_event_name\":\"StopFailure\",\"error\":\"rate_limit\"}\n",
    "{\"session_id\":\"s\",\"hook_event_name\":\"Notification\",\"message\":\"permission\\u001b\"}\n",
    "{\"session_id\":\"s\",\"hook_event_name\":\"SessionEnd\"}\n",
    "{\"session_id\":\"s\",\"event\":\"Stop\",\"at\":\"2026-11-23T19:00:00.000000Z\",\"state\":\"done\"}\n",
    "{\"pid\":7,\"sessionId\":\"s\",\"status\":\"busy\"}\n",
    "{\"",
    "\n",
];

/// Parts of the data that arrives at either end of the observer's socket.
const API: &[&str] = &[
    "GET /v1/runs/a%2Fb?run=a,b&since=%zz HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 1.2.3.4.5.6\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\n\r\n{\"detail\":\"x\"}",
    "id: 1f.2.3\n",
    "data: {\"seq\":1,\"ts\":\"2026-01-21T10:00:01.000001Z\",\"event\":{\"type\":\"IterationStarted\",\"execution_id\":\"a\",\"iteration\":1}}\n\n",
    "data: {\"seq\":null,\"ts\":\"2026-01-21T10:00:01Z\",\"event\":{\"type\":\"Lagged\",\"missed\":7}}\n\n",
    "1f.2.3.4.5.6",
    "a\r\n",
    "\r\n",
    "\n\n",
    "0\r\n",
    "é",
];

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn hook_on_any_input(parts in vec(proptest::sample::select(HOOKS), 0..8), bytes in any::<Vec<u8>>()) {
        hook::run(parts.concat().as_bytes());
        hook::run(&bytes);
    }

    #[test]
    fn api_on_any_bytes(
        how in any::<[u8; 2]>(),
        parts in vec(proptest::sample::select(API), 0..8),
        bytes in any::<Vec<u8>>(),
    ) {
        api::run(&[&how, parts.concat().as_bytes()].concat());
        api::run(&[&how[..], &bytes].concat());
    }
}

/// Parts of requests over TCP.
#[cfg(feature = "serve")]
const HEADS: &[&str] = &[
    "GET /api/v1/board HTTP/1.1\r\n",
    "POST /api/v1/panes/a/input?token=0123456789abcdef0123456789abcdef HTTP/1.1\r\n",
    "Host: 127.0.0.1:7700\r\n",
    "Host: [::1]\r\n",
    "Host: td.example.org\r\n",
    "host: evil.example\r\n",
    "Origin: http://127.0.0.1:7700\r\n",
    "Origin: null\r\n",
    "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n",
    "Authorization: bearer \t0123456789abcdef0123456789abcdef\r\n",
    "Authorization: Bearer 0123456789abcdef0123456789abcdee\r\n",
    "Sec-Fetch-Site: cross-site\r\n",
    "Sec-Fetch-Site: same-origin\r\n",
    "Upgrade: websocket\r\n",
    "\r\n",
    "\0",
];

/// Parts of an MCP client's messages.
#[cfg(feature = "mcp")]
const MESSAGES: &[&str] = &[
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/call\",\"params\":{\"name\":\"wait_for\",\"arguments\":{\"pane\":7}}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"server/discover\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n",
    "[{\"jsonrpc\":\"2.0\"}]\n",
    "{\"",
    "\u{1b}",
    "\n",
];

/// Parts of reports of a program's status; some texts are Base64.
const REPORTS: &[&str] = &[
    "state=working:id=a/b:progress=50",
    "state=blocked:kind=permission:app=claude:msg=UnVuIG1ha2U/",
    "state=blocked:msg=G1swbQ==:title=CgoK",
    "state=clear:id=a",
    ":msg=****",
    ":progress=4294967296",
    ":id=",
    "state=done",
    "\n",
    "/",
    ":",
    "=",
];

/// Parts of what another host's observer answers.
#[cfg(feature = "hosts")]
const ANSWERS: &[&str] = &[
    "{\"execution_id\":\"../x\",\"name\":\"a\",\"pane\":\"%1\",\"server\":\"/tmp/s\",\"kind\":\"pane\",\"agent\":null,\"state\":\"idle\",\"since\":\"2026-01-21T10:00:00Z\",\"seen\":null,\"evidence\":null,\"asks\":null,\"exit_status\":null,\"last_line\":\"\",\"last_output\":null,\"turns\":0,\"gaps\":0,\"errors\":0,\"phases\":null,\"host\":\"other\",\"file\":\"/etc/passwd\"}\n",
    "{\"seq\":1,\"ts\":\"2026-01-21T10:00:01Z\",\"event\":{\"type\":\"IterationStarted\",\"execution_id\":\"web/a\",\"iteration\":1}}\n",
    "{\"execution_id\":\"other/a\",\"path\":\"other:/x\"}\n",
    "{\"execution_id\":7}\n",
    "[]\n",
    "null",
    "{\"",
    "\n",
];

proptest! {
    #![proptest_config(cases(400))]

    #[cfg(feature = "serve")]
    #[test]
    fn tcp_on_any_heads(how in any::<u8>(), parts in vec(proptest::sample::select(HEADS), 0..9), bytes in any::<Vec<u8>>()) {
        tcp::run(&[&[how], parts.concat().as_bytes()].concat());
        tcp::run(&[&[how], &bytes[..]].concat());
    }

    #[cfg(feature = "mcp")]
    #[test]
    fn mcp_on_any_lines(parts in vec(proptest::sample::select(MESSAGES), 0..6), bytes in any::<Vec<u8>>()) {
        mcp::run(parts.concat().as_bytes());
        mcp::run(&bytes);
    }

    #[test]
    fn program_status_of_any_reports(parts in vec(proptest::sample::select(REPORTS), 0..20), text in any::<String>()) {
        program_status::run(parts.concat().as_bytes());
        program_status::run(text.as_bytes());
    }

    #[cfg(feature = "hosts")]
    #[test]
    fn remote_on_any_answers(parts in vec(proptest::sample::select(ANSWERS), 0..6), bytes in any::<Vec<u8>>()) {
        remote::run(parts.concat().as_bytes());
        remote::run(&bytes);
    }
}

/// Inputs written by hand, and inputs that fuzzing has found to reach more code, or to reveal a fault.
#[test]
fn corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for (name, body) in [
        ("agent", agent::run as fn(&[u8])),
        ("api", api::run),
        ("envelope", envelope::run),
        ("hook", hook::run),
        ("reader", reader::run),
        ("query", query::run),
        ("redact", redact::run),
        ("program_status", program_status::run),
        #[cfg(feature = "hosts")]
        ("remote", remote::run),
        #[cfg(feature = "mcp")]
        ("mcp", mcp::run),
        #[cfg(feature = "serve")]
        ("tcp", tcp::run),
    ] {
        let mut inputs = 0;
        for entry in fs::read_dir(root.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            catch_unwind(AssertUnwindSafe(|| body(&bytes))).unwrap_or_else(|panicked| {
                eprintln!("with the input {}", path.display());
                resume_unwind(panicked)
            });
            inputs += 1;
        }
        assert!(inputs > 0, "no inputs for {name}");
    }
}
