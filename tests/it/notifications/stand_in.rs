//! Servers on this machine that take notifications: one that answers as it is told, and Telegram's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{CEILING, wait_for};

/// A request that has arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub headers: Vec<String>,
    pub body: String,
    pub at: Instant,
}

impl Request {
    /// Returns the value of a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.headers.iter().filter_map(|line| line.split_once(": "));
        let found = pairs.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: String,
    body: String,
    wait: Duration,
    /// The bytes after which the connection is closed.
    bytes_max: usize,
}

impl Reply {
    pub fn ok(body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..Self::status(200)
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: String::new(),
            body: String::new(),
            wait: Duration::ZERO,
            bytes_max: usize::MAX,
        }
    }

    pub fn header(mut self, line: &str) -> Self {
        self.headers.push_str(&format!("{line}\r\n"));
        self
    }

    /// Half of the head.
    pub fn half() -> Self {
        Self {
            bytes_max: 7,
            ..Self::status(200)
        }
    }

    pub fn slow(wait: Duration) -> Self {
        Self {
            wait,
            ..Self::status(200)
        }
    }

    /// Nothing: the connection is closed.
    pub fn closed() -> Self {
        Self {
            bytes_max: 0,
            ..Self::status(200)
        }
    }
}

/// A server that keeps what arrives.
pub struct StandIn {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl StandIn {
    /// Starts a server that answers the requests by their numbers, from 0.
    pub fn new(answer: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::answering(move |number, _| answer(number))
    }

    pub fn answering(answer: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { port, requests }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until so many requests have arrived.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Request> {
        wait_for("requests", CEILING, || {
            let requests = self.requests();
            if requests.len() >= count {
                Ok(requests)
            } else {
                Err(requests)
            }
        })
    }
}

fn serve(
    stream: TcpStream,
    kept: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(usize, &Request) -> Reply + Send + Sync),
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            header => headers.push(header.to_owned()),
        }
    }
    let mut request = Request {
        path,
        headers,
        body: String::new(),
        at: Instant::now(),
    };
    let length = request
        .header("content-length")
        .and_then(|it| it.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    request.body = String::from_utf8(body).unwrap();
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(request.clone());
        kept.len() - 1
    };
    let reply = answer(number, &request);
    if !reply.wait.is_zero() {
        std::thread::sleep(reply.wait);
    }
    let text = format!(
        "HTTP/1.1 {} Status\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}",
        reply.status,
        reply.headers,
        reply.body.len(),
        reply.body
    );
    let bytes = &text.as_bytes()[..reply.bytes_max.min(text.len())];
    // The client may have given up.
    let _ = (&stream).write_all(bytes);
}

/// Telegram's Bot API, as far as its documentation describes what notifications use.
#[derive(Clone, Default)]
pub struct Telegram(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    messages: Vec<(Instant, Value)>,
    edits: Vec<Value>,
    answers: Vec<Value>,
    /// The updates that were not confirmed.
    updates: Vec<Value>,
    next_update: i64,
}

impl Telegram {
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    pub fn serve(&self) -> StandIn {
        let telegram = self.clone();
        StandIn::answering(move |_, request| telegram.answer(request))
    }

    fn answer(&self, request: &Request) -> Reply {
        let method = request.path.rsplit('/').next().unwrap_or_default();
        assert!(request.path.starts_with("/bot123:ABC/"), "{}", request.path);
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let result = match method {
            "sendMessage" => {
                let mut state = self.state();
                state.messages.push((request.at, body.clone()));
                let number = state.messages.len();
                json!({"message_id": number, "date": 1, "chat": {"id": 7, "type": "private"}, "text": body["text"]})
            }
            "editMessageText" => {
                self.state().edits.push(body);
                json!(true)
            }
            "answerCallbackQuery" => {
                self.state().answers.push(body);
                json!(true)
            }
            "getUpdates" => {
                let offset = body["offset"].as_i64().unwrap_or(0);
                let until =
                    Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or(0));
                let mut state = self.state();
                loop {
                    state
                        .updates
                        .retain(|it| it["update_id"].as_i64() >= Some(offset));
                    let left = until.saturating_duration_since(Instant::now());
                    if !state.updates.is_empty() || left.is_zero() {
                        break json!(state.updates);
                    }
                    state = self.0.1.wait_timeout(state, left).unwrap().0;
                }
            }
            other => panic!("{other} is no method"),
        };
        Reply::ok(&json!({"ok": true, "result": result}).to_string())
    }

    pub fn messages(&self) -> Vec<Value> {
        let state = self.state();
        state
            .messages
            .iter()
            .map(|(_, message)| message.clone())
            .collect()
    }

    pub fn times(&self) -> Vec<Instant> {
        let state = self.state();
        state.messages.iter().map(|(at, _)| *at).collect()
    }

    #[track_caller]
    pub fn wait_for_message(&self, count: usize) -> Value {
        self.wait("a message", |state| {
            state
                .messages
                .get(count - 1)
                .map(|(_, message)| message.clone())
        })
    }

    #[track_caller]
    pub fn wait_for_answer(&self, count: usize) -> Value {
        self.wait("an answer", |state| state.answers.get(count - 1).cloned())
    }

    #[track_caller]
    pub fn wait_for_edit(&self, count: usize) -> Value {
        self.wait("an edit", |state| state.edits.get(count - 1).cloned())
    }

    #[track_caller]
    fn wait(&self, what: &str, find: impl Fn(&State) -> Option<Value>) -> Value {
        wait_for(what, CEILING, || find(&self.state()).ok_or("none"))
    }

    /// Returns the data of a message's button.
    pub fn button(&self, message: &Value, label: &str) -> String {
        let rows = message["reply_markup"]["inline_keyboard"]
            .as_array()
            .unwrap();
        let mut buttons = rows.iter().flat_map(|row| row.as_array().unwrap());
        let found = buttons
            .find(|it| it["text"].as_str().unwrap().contains(label))
            .unwrap();
        found["callback_data"].as_str().unwrap().to_owned()
    }

    /// A user presses a button of the last message.
    pub fn press(&self, user: i64, data: &str) {
        let mut state = self.state();
        state.next_update += 1;
        let number = state.next_update;
        state.updates.push(json!({
            "update_id": number,
            "callback_query": {
                "id": format!("query{number}"),
                "from": {"id": user, "is_bot": false, "first_name": "Ann"},
                "message": {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}},
                "chat_instance": "x",
                "data": data,
            },
        }));
        self.0.1.notify_all();
    }
}
