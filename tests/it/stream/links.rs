//! Links of programs (OSC 8): in the events and the log beside the text.

use std::io::Write;

use serde_json::{Value, json};
use td_observe::Envelope;

use super::{streamed, wait_until_streamed};
use crate::support::TmuxServer;

const QUIET: &str = "stty raw -echo; exec cat >/dev/null";

/// Returns the links of the settled lines: number, start, end, linked text and address.
fn links(events: &[Envelope]) -> Vec<Value> {
    let mut links = Vec::new();
    for envelope in events {
        let event = &json!(envelope)["event"];
        for link in event["links"].as_array().into_iter().flatten() {
            let number = |value: &Value| value.as_i64().unwrap();
            let at = number(&link["line"]) - number(&event["first_line"]);
            let mut lines = event["chunk"].as_str().unwrap().lines();
            let line = lines.nth(at as usize).unwrap();
            let (start, end) = (number(&link["start"]), number(&link["end"]));
            let text = line.chars().skip(start as usize);
            let text: String = text.take((end - start) as usize).collect();
            links.push(json!([link["line"], start, end, text, link["url"]]));
        }
    }
    links
}

#[test]
fn events_and_the_history_have_the_addresses_of_links() {
    let server = TmuxServer::new();
    let pane = server.new_session("job", 20, 6, QUIET);
    let mut observed = streamed(&server);
    observed.until_started(1);
    wait_until_streamed(&server, 1);
    let mut terminal = server.terminal(&pane);
    let key = format!("ghp_{}", "Ab1".repeat(12));
    let long = format!("https://example.com/{}", "a".repeat(1000));
    let (open, close) = ("\x1b]8;;", "\x1b]8;;\x1b\\");
    write!(
        terminal,
        "see {open}https://example.com/1\x1b\\one{close} and \x1b]8;id=7;mailto:a@b.c\x07two\x1b]8;;\x07\r\n\
         a line that wraps in {open}{long}\x1b\\its link\r\n\x1b[31mand\x1b[0m goes on{close}.\r\n\
         {open}file:///etc/passwd\x1b\\file{close} {open}javascript:alert(1)\x1b\\js{close}\r\n\
         {open}https://x.example/?token={key}\x1b\\key{close}\r\n{open}http://x\x1b\\cut\x1bcend\r\n",
    )
    .unwrap();
    observed.until_line("end");
    observed.stop();
    let holds = |events: &[Envelope]| {
        let links = links(events);
        let (secret, others): (Vec<_>, Vec<_>) = links.iter().partition(|link| link[3] == "key");
        let expected = [
            json!([1, 4, 7, "one", "https://example.com/1"]),
            json!([1, 12, 15, "two", "mailto:a@b.c"]),
            json!([2, 21, 29, "its link", long]),
            json!([3, 0, 11, "and goes on", long]),
            json!([6, 0, 3, "cut", "http://x"]),
        ];
        assert_eq!(others, expected.iter().collect::<Vec<_>>());
        let url = secret[0][4].as_str().unwrap();
        assert!(url.starts_with("https://x.example/?token="), "{url}");
    };
    holds(&observed.seen);
    let logs = observed.logs();
    holds(logs.values().next().unwrap());
    let shown = format!("{:?}", logs.values());
    assert!(!shown.contains(&key), "{shown}");
}
