//! Requests of all channels, recorded and checked by a second implementation in Python: `tests/it/notify/bodies.py`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::http::Client;
use super::ntfy::Ntfy;
use super::stand_in::{Act, Recorded, StandIn, client, done, message, note, question};
use super::telegram::{Chat, Telegram};
use super::webhook::Webhook;
use super::{Answers, Asked, Channel};
use crate::agent_loop::Secret;
use crate::notify::message::{Item, News, Note, Settled};

/// A token that ntfy and Telegram would both accept.
const TOKEN: &str = "123:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw";

struct Accepting;

impl Answers for Accepting {
    fn answer(&self, _: &Asked, _key: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Returns notes with everything that makes a body difficult, each with its settled version.
fn notes() -> Vec<Note> {
    let with_text = |name: &str, text: String| {
        let mut item = question(name);
        item.text = Some(text.clone());
        item.dialogue = Some(text);
        item
    };
    let mut secretive = question("secretive");
    (secretive.text, secretive.dialogue) = (None, None);
    let mut labels = question("labels");
    labels.choices[0].label = "Ja, alle Dateien in ~/projekte/über 😀 löschen ".repeat(9);
    labels.choices[1].label = String::from("\"No\", and tell Claude \\ what to do");
    let every = News::ALL.map(|news| Item {
        news,
        ..done(news.as_str())
    });
    let many: Vec<Item> = (0..12)
        .map(|number| question(&format!("agent-{number}")))
        .collect();
    let lists = vec![
        vec![question("plain")],
        vec![done("finished")],
        vec![with_text("long", "0123456789 ".repeat(1000))],
        vec![with_text("emoji", "Run 😀👩‍👩‍👧 in /tmp/é?\n".repeat(400))],
        vec![with_text(
            "escapes",
            "\"\\\t\n\u{1}'<b>*_`[x](y)&amp;".repeat(300),
        )],
        vec![secretive],
        vec![labels],
        every.to_vec(),
        vec![question("one"), done("two"), question("three")],
        many,
    ];
    let lists = lists.into_iter().enumerate();
    lists
        .map(|(number, items)| note(&format!("n{number}x"), items))
        .collect()
}

/// Returns a note as the second implementation gets it.
fn about(note: &Note, is_update: bool) -> Value {
    let items = note.items.iter().map(|item| {
        json!({
            "news": item.news.as_str(), "name": item.name, "text": item.text, "dialogue": item.dialogue,
            "question_id": item.question_id, "choices": item.choices,
            "settled": item.settled.map(Settled::as_str),
        })
    });
    json!({"id": note.id, "update": is_update, "items": items.collect::<Vec<Value>>()})
}

fn recorded(channel: &str, about: &Value, request: &Recorded) -> Value {
    let hex = request.body.iter().map(|byte| format!("{byte:02x}"));
    json!({
        "channel": channel, "about": about, "method": request.method, "path": request.path,
        "headers": request.headers, "body_hex": hex.collect::<String>(),
    })
}

/// Sends all notes and their updates through a channel, and output.
fn record(name: &str, channel: &mut dyn Channel, server: &StandIn) -> Vec<Value> {
    let mut requests = Vec::new();
    let mut drain = |about: &Value| {
        for request in server.requests.try_iter().collect::<Vec<_>>() {
            let is_answer = ["getUpdates", "answerCallbackQuery"]
                .iter()
                .any(|method| request.path.ends_with(method));
            let about = if is_answer { &Value::Null } else { about };
            requests.push(recorded(name, about, &request));
        }
    };
    for mut note in notes() {
        let sent = channel.send(&note).unwrap();
        drain(&about(&note, false));
        note.items[0].settled = Some(Settled::Over);
        channel.update(&note, &sent).unwrap();
        drain(&about(&note, true));
        for item in &mut note.items {
            item.settled = Some(Settled::Gone);
        }
        channel.update(&note, &sent).unwrap();
        drain(&about(&note, true));
    }
    let output = "error: 😀 \"x\"\n\t\u{1}".repeat(2000);
    channel.output(&output).unwrap();
    drain(&Value::Null);
    requests
}

/// Returns the requests of all channels.
fn requests() -> Vec<Value> {
    let client = || -> Client { client(20_000) };
    let mut requests = Vec::new();

    let server = StandIn::start(|_| Act::Answer(200, String::new(), String::new()));
    let secret = Some(Secret::new("a secret"));
    let mut webhook = Webhook::new("ci", &server.url("/h"), false, secret, client()).unwrap();
    requests.extend(record("webhook", &mut webhook, &server));

    let server = StandIn::start(|request| Act::json(200, &request.json()));
    let (token, click) = (
        Some(Secret::new(TOKEN)),
        Some("https://host/page".to_owned()),
    );
    let mut ntfy = Ntfy::new(&server.url("/my-topic"), false, token, click, client()).unwrap();
    requests.extend(record("ntfy", &mut ntfy, &server));

    let (go, pressed) = bounded(1);
    go.send(()).unwrap();
    let server = StandIn::start(move |request| match request.path.rsplit('/').next() {
        Some("getUpdates") if pressed.try_recv().is_ok() => {
            let query = json!({
                "id": "4382bfdwdsb323b2d9", "data": "n0x.00", "from": {"id": 1},
                "message": {"chat": {"id": -100_123}},
            });
            let update = json!({"update_id": 10_000, "callback_query": query});
            Act::json(200, &json!({"ok": true, "result": [update]}))
        }
        Some("getUpdates") => Act::Never,
        _ => Act::json(200, &message(5)),
    });
    let (warnings, _receiver) = bounded(1);
    let (url, token) = (server.url(""), Secret::new(TOKEN));
    let chat = Chat::Id(-100_123);
    let telegram = Telegram::new(chat, token, Some(&url), false, client(), warnings).unwrap();
    let mut telegram = telegram.with_answers(vec![1], Arc::new(Accepting)).unwrap();
    // Two calls for updates, and the answer to the press between them.
    for _ in 0..3 {
        requests.push(recorded("telegram", &Value::Null, &server.next()));
    }
    requests.extend(record("telegram", &mut telegram, &server));
    requests
}

/// Runs the second implementation, and returns true if it accepts the requests, and what it says.
fn check(requests: &[Value]) -> (bool, String) {
    let input = json!({
        "secret": "a secret", "token": TOKEN, "topic": "my-topic", "chat": -100_123,
        "requests": requests,
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/notify/bodies.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = python.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said)
}

/// Returns a request whose body is changed; its length is the right one.
fn changed(request: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let hex = request["body_hex"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let mut body: Value = serde_json::from_slice(&bytes).unwrap();
    change(&mut body);
    let body = body.to_string();
    let mut request = request.clone();
    for header in request["headers"].as_array_mut().unwrap() {
        if header[0] == "content-length" {
            header[1] = json!(body.len().to_string());
        }
    }
    let hex = body.bytes().map(|byte| format!("{byte:02x}"));
    request["body_hex"] = json!(hex.collect::<String>());
    request
}

#[test]
fn a_second_implementation_accepts_all_requests() {
    let requests = requests();
    let (is_right, said) = check(&requests);
    assert!(is_right, "{said}");
    // Each note has a message and at least two updates in each channel.
    assert!(
        requests.len() >= 3 * 3 * notes().len(),
        "{}",
        requests.len()
    );

    // It notices what is wrong.
    let find = |channel: &str, end: &str| -> &Value {
        let mut requests = requests.iter();
        let is_it = |request: &&Value| {
            let path = request["path"].as_str().unwrap();
            request["channel"] == channel && path.ends_with(end) && request["method"] == "POST"
        };
        requests.find(is_it).unwrap()
    };
    let webhook = find("webhook", "");
    let ntfy = find("ntfy", "/");
    let (sent, edited) = (
        find("telegram", "sendMessage"),
        find("telegram", "editMessageText"),
    );
    let (asked, answered) = (
        find("telegram", "getUpdates"),
        find("telegram", "answerCallbackQuery"),
    );
    let set = |name: &'static str, value: Value| move |body: &mut Value| body[name] = value;
    let wrong = [
        changed(webhook, |body| body["event"]["session"] = json!("other")),
        changed(ntfy, set("priority", json!(6))),
        changed(ntfy, set("priority", json!("4"))),
        changed(ntfy, set("sequence_id", json!("a b"))),
        changed(ntfy, set("message", json!("x".repeat(4097)))),
        changed(ntfy, set("urgent", json!(true))),
        changed(ntfy, set("actions", json!([{}, {}, {}, {}]))),
        changed(sent, set("text", json!(""))),
        changed(sent, set("text", json!("😀".repeat(2049)))),
        changed(sent, set("parse_mode", json!("HTML"))),
        changed(sent, set("chat_id", json!("7"))),
        changed(
            sent,
            set(
                "reply_markup",
                json!({"inline_keyboard": [[{"text": "Yes"}]]}),
            ),
        ),
        changed(edited, set("message_id", json!("5"))),
        changed(edited, |body| {
            body.as_object_mut().unwrap().remove("text");
        }),
        changed(asked, set("timeout", json!(0))),
        changed(asked, set("allowed_updates", json!([]))),
        changed(answered, set("text", json!("x".repeat(201)))),
        changed(answered, set("callback_query_id", json!(5))),
    ];
    for request in wrong {
        let (is_right, said) = check(std::slice::from_ref(&request));
        assert!(
            !is_right && said.contains("1 requests, "),
            "{said} {request}"
        );
    }
}
