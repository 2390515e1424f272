//! A server on this machine that stands in for those of the channels, and the notes that the tests send.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::{Value, json};

use super::http::{Client, Limits};
use crate::clock::Clock;
use crate::event::DialogueChoice;
use crate::notify::message::{Item, News, Note};
use crate::thread::{Handle, spawn};
use crate::timestamp::Timestamp;

/// The most time that a test waits for anything.
pub const CEILING: Duration = Duration::from_secs(20);

/// What the server does with a request.
pub enum Act {
    /// Answers with a status, headers (each with its line break) and a body.
    Answer(u16, String, String),
    /// The same, after a message from the test, or when the test is over.
    After(Receiver<()>, u16, String),
    /// Sends the head of a good answer and a part of its body.
    Half(String),
    /// The same, and keeps the connection open until the client gives up.
    Stuck(String),
    /// Closes the connection.
    Close,
    /// Answers nothing until the client gives up.
    Never,
}

impl Act {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Answer(status, String::new(), body.to_string())
    }
}

/// A request as the server got it.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// With names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(own, value)| (own == name).then_some(value.as_str()))
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The server. It closes when it is dropped.
pub struct StandIn {
    port: u16,
    pub requests: Receiver<Recorded>,
    is_over: Arc<AtomicBool>,
    thread: Option<Handle<()>>,
}

impl StandIn {
    /// Starts a server that acts on each request as the function says.
    pub fn start(act: impl Fn(&Recorded) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = bounded(10_000);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let act = Arc::new(act);
        let thread = spawn("stand-in", move || {
            let mut connections = Vec::new();
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (act, sender) = (Arc::clone(&act), sender.clone());
                let stream = stream.unwrap();
                let connection = spawn("stand-in-1", move || serve(stream, &*act, &sender));
                connections.push(connection.unwrap());
            }
            connections.into_iter().for_each(Handle::join_logged);
        });
        Self {
            port,
            requests,
            is_over,
            thread: Some(thread.unwrap()),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the next request.
    #[track_caller]
    pub fn next(&self) -> Recorded {
        self.requests.recv_timeout(CEILING).expect("a request")
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // It wakes the thread; an error means that it has ended.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.thread.take().into_iter().for_each(Handle::join_logged);
    }
}

fn serve(mut stream: TcpStream, act: &dyn Fn(&Recorded) -> Act, sender: &Sender<Recorded>) {
    stream.set_read_timeout(Some(CEILING)).unwrap();
    let Some(request) = read_request(&mut stream) else {
        return;
    };
    // An error means that the test is over.
    let _ = sender.send(request.clone());
    let act = act(&request);
    let head = |status: u16, headers: &str, length: usize| {
        format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n")
    };
    // The client may have gone away.
    let _ = match act {
        Act::Answer(status, headers, body) => {
            let head = head(status, &headers, body.len());
            stream.write_all(format!("{head}{body}").as_bytes())
        }
        Act::After(go, status, body) => {
            let _ = go.recv_timeout(CEILING);
            let head = head(status, "", body.len());
            stream.write_all(format!("{head}{body}").as_bytes())
        }
        Act::Half(body) => {
            let head = head(200, "", body.len() * 2);
            stream.write_all(format!("{head}{body}").as_bytes())
        }
        Act::Stuck(body) => {
            let head = head(200, "", body.len() * 2);
            let sent = stream.write_all(format!("{head}{body}").as_bytes());
            sent.and_then(|()| stream.read(&mut [0])).map(|_| ())
        }
        Act::Close => Ok(()),
        // Ends when the client closes the connection.
        Act::Never => stream.read(&mut [0]).map(|_| ()),
    };
}

fn read_request(stream: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(Recorded {
        method,
        path,
        headers,
        body,
    })
}

/// Returns a client with limits that tests can wait for.
pub fn client(whole_ms: u64) -> Client {
    let limits = Limits {
        connect: Duration::from_secs(5),
        whole: Duration::from_millis(whole_ms),
    };
    Client::new(limits, Clock::system())
}

/// Returns a question of an agent.
pub fn question(name: &str) -> Item {
    let choice = |key: &str, label: &str| DialogueChoice {
        key: key.into(),
        label: label.into(),
        selected: false,
    };
    Item {
        news: News::Waiting,
        row: format!("pane:%{name}"),
        execution_id: format!("e-{name}"),
        pane: Some("%1".into()),
        server: None,
        name: name.into(),
        agent: Some("claude".into()),
        since: Timestamp::from_micros(1_790_000_000_000_000),
        question: 0,
        text: Some("Run cargo test?".into()),
        question_id: Some(format!("q-{name}")),
        dialogue: Some("Run cargo test?\n❯ 1. Yes\n  2. No".into()),
        choices: vec![choice("1", "Yes"), choice("2", "No")],
        settled: None,
    }
}

/// Returns the end of an agent's turn.
pub fn done(name: &str) -> Item {
    Item {
        news: News::Done,
        text: Some("All tests pass.".into()),
        question_id: None,
        dialogue: None,
        choices: Vec::new(),
        ..question(name)
    }
}

pub fn note(id: &str, items: Vec<Item>) -> Note {
    Note {
        id: id.into(),
        at: Timestamp::from_micros(1_790_000_001_000_000),
        items,
    }
}

/// Returns what Telegram answers to `sendMessage`.
pub fn message(message_id: i64) -> Value {
    json!({"ok": true, "result": {"message_id": message_id, "chat": {"id": 7}, "date": 1, "text": "x"}})
}
