//! A client of `td-observe mcp` that can do what no good client does, and believes nothing.
//!
//! It checks each line that the server prints: a line is one message; a message satisfies the official schema of the
//! era of the request that it belongs to; each request is answered once at most, and no progress follows; a result of a
//! tool is short, satisfies the tool's output schema, and is the same in both of its forms. A test that reads lines of
//! the server reads them through this client.
//!
//! ```text
//! let mut client = Client::connected(&home, &["--allow-input"]);
//! let found = client.tool("list_panes", json!({}));
//! let wait = client.call("wait_for", json!({"pane": "web", "text": "done"}));
//! client.tool("send_input", json!({"pane": "web", "text": "done"}));
//! assert_eq!(client.outcome(wait)["outcome"], "found");
//! assert_code(&client.end(), 0);
//! ```

// Each test module uses a part of this.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::official::{Era, check_error_without_request};
use crate::cli::text;
use crate::observer::Home;
use crate::schema::Structure;
use crate::support::{CEILING, wait_for};

/// The greatest size of a result, in bytes, unless the call has a `limit`.
pub const RESULT_BYTES_MAX: usize = 4096;

/// The greatest size of any other message, in bytes.
const MESSAGE_BYTES_MAX: usize = 16_000;

/// The last messages that a failure shows.
const SHOWN_MAX: usize = 30;

/// The number of a request of this client.
pub type Id = u64;

/// A request that the server has read, or will.
struct Asked {
    era: Era,
    method: String,
    tool: Option<String>,
    progress_token: Option<Value>,
    is_limited: bool,
    /// How often the id was used.
    times: usize,
    answers: usize,
    /// The last progress that was reported.
    progress: f64,
}

/// A running `td-observe mcp`.
pub struct Client {
    child: Child,
    /// To the thread that writes; without it standard input is closed.
    input: Option<Sender<Vec<u8>>>,
    lines: Receiver<Vec<u8>>,
    gate: Arc<Gate>,
    complaints: Arc<Mutex<Vec<u8>>>,
    stderr: Option<JoinHandle<()>>,
    era: Era,
    next_id: Id,
    /// What was sent of a line.
    sent: Vec<u8>,
    /// All requests, by their id as JSON.
    asked: BTreeMap<String, Asked>,
    /// The output schemas of the tools, once they are known.
    outputs: BTreeMap<String, Structure>,
    /// Messages that have been read and that no call has asked for.
    unread: VecDeque<Value>,
    /// The last messages in both directions.
    exchange: VecDeque<String>,
    has_stopped_reading: bool,
    has_ended: bool,
}

/// Lets the reader of standard output read, or not.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        drop(self.changed.wait_while(is_closed, |closed| *closed));
    }
}

/// Its start and its end.
impl Client {
    /// Starts the server with these arguments in a home, for its tmux server; sends nothing.
    #[track_caller]
    pub fn start(home: &Home, args: &[&str]) -> Self {
        let socket = home.server.socket().display().to_string();
        Self::of(home.command(&[&["mcp", "-S", &socket], args].concat()))
    }

    /// Starts a server and shakes hands in the old era.
    #[track_caller]
    pub fn connected(home: &Home, args: &[&str]) -> Self {
        Self::connected_in(Era::Handshake, home, args)
    }

    /// Starts a server and gets to know it and its tools as a client of this era does.
    #[track_caller]
    pub fn connected_in(era: Era, home: &Home, args: &[&str]) -> Self {
        let mut client = Self::start(home, args);
        client.connect(era);
        client
    }

    /// Starts a command whose standard output is that of a server.
    #[track_caller]
    pub fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, to_write) = channel::<Vec<u8>>();
        let mut stdin = child.stdin.take().unwrap();
        thread::spawn(move || {
            for bytes in to_write {
                // A server that ends closes its input; what the test expects of that, it checks.
                let _ = stdin.write_all(&bytes);
            }
        });
        let (send, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let gate = Arc::new(Gate::default());
        let own_gate = Arc::clone(&gate);
        thread::spawn(move || {
            loop {
                own_gate.pass();
                let mut line = Vec::new();
                if stdout.read_until(b'\n', &mut line).unwrap_or(0) == 0 || send.send(line).is_err()
                {
                    break;
                }
            }
        });
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&complaints);
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            child,
            input: Some(input),
            lines,
            gate,
            complaints,
            stderr: Some(stderr),
            era: Era::Handshake,
            next_id: 1,
            sent: Vec::new(),
            asked: BTreeMap::new(),
            outputs: BTreeMap::new(),
            unread: VecDeque::new(),
            exchange: VecDeque::new(),
            has_stopped_reading: false,
            has_ended: false,
        }
    }

    /// Gets to know the server and its tools in an era. The requests that follow speak it.
    #[track_caller]
    pub fn connect(&mut self, era: Era) -> Value {
        self.set_era(era);
        let server = match era {
            Era::Handshake => {
                let client = json!({"name": "the tests", "version": "1"});
                let hello = self.ask(
                    "initialize",
                    json!({"protocolVersion": era.version(), "capabilities": {}, "clientInfo": client}),
                );
                self.notify("notifications/initialized", json!({}));
                hello
            }
            Era::PerRequest => self.ask("server/discover", json!({})),
        };
        self.tools();
        server
    }

    /// Speaks this era from now on.
    pub fn set_era(&mut self, era: Era) {
        self.era = era;
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns what was printed on standard error so far.
    pub fn complaints(&self) -> String {
        text(&self.complaints.lock().unwrap())
    }

    /// Reads nothing any more, once the line that is being read is complete. A server that ends then need not write its
    /// last line to the end.
    pub fn stop_reading(&mut self) {
        self.has_stopped_reading = true;
        self.gate.set_closed(true);
    }

    pub fn read_again(&self) {
        self.gate.set_closed(false);
    }

    /// Closes standard input after what was sent before.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Closes standard input; returns what the server has left, within the ceiling.
    #[track_caller]
    pub fn end(self) -> Output {
        self.end_within(CEILING)
    }

    /// Closes standard input. The server ends within the ceiling, whether its output is read or not. What it has
    /// printed and the test has not read is checked and returned as standard output.
    #[track_caller]
    pub fn end_within(mut self, ceiling: Duration) -> Output {
        self.close();
        self.exit_within(ceiling)
    }

    /// Like `end_within` for a server that ends by itself: standard input stays open.
    #[track_caller]
    pub fn exit_within(mut self, ceiling: Duration) -> Output {
        let child = &mut self.child;
        let status = wait_for("the server's end", ceiling, || {
            child.try_wait().unwrap().ok_or("it still runs")
        });
        self.has_ended = true;
        self.read_again();
        while let Some(message) = self.read(CEILING) {
            self.unread.push_back(message);
        }
        // What the server has left behind may keep its output open, which then is a fault.
        let stderr = self.stderr.take().unwrap();
        wait_for("the end of standard error", CEILING, || {
            stderr.is_finished().then_some(()).ok_or(())
        });
        let unread = self.unread.iter().map(|message| format!("{message}\n"));
        Output {
            status,
            stdout: unread.collect::<String>().into_bytes(),
            stderr: std::mem::take(&mut self.complaints.lock().unwrap()),
        }
    }
}

/// What it sends.
impl Client {
    /// Sends these bytes and no others.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.note("→", &text(bytes));
        self.sent.extend_from_slice(bytes);
        while let Some(end) = self.sent.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.sent.drain(..=end).collect();
            self.expect_answer(&line);
        }
        if let Some(input) = &self.input {
            // The server may have ended.
            let _ = input.send(bytes.to_vec());
        }
    }

    /// Sends a message as it is, in one line.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// Sends a request, with what the era demands; its answer is read later.
    pub fn request(&mut self, method: &str, params: Value) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        let params = self.params(params);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let params = self.params(params);
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Calls a tool; its outcome is read later.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Id {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that reports its progress with the id of the call as its token.
    pub fn call_with_progress(&mut self, tool: &str, arguments: Value) -> Id {
        let meta = json!({"progressToken": self.next_id});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        self.request("tools/call", params)
    }

    pub fn cancel(&mut self, id: Id) {
        self.notify("notifications/cancelled", json!({"requestId": id}));
    }

    fn params(&self, mut params: Value) -> Value {
        if self.era == Era::PerRequest {
            let meta = &mut params["_meta"];
            let client = json!({"name": "the tests", "version": "1"});
            meta["io.modelcontextprotocol/protocolVersion"] = self.era.version().into();
            meta["io.modelcontextprotocol/clientInfo"] = client;
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        params
    }

    /// Remembers what the answer to a request must be.
    fn expect_answer(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let Some(id) = message.get("id") else {
            return;
        };
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        if is_answer && message.get("method").is_none() {
            return;
        }
        let params = &message["params"];
        let asked = Asked {
            era: Era::of(&message),
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            tool: params["name"].as_str().map(str::to_owned),
            progress_token: params["_meta"].get("progressToken").cloned(),
            is_limited: params["arguments"]["limit"].is_u64(),
            times: 1 + self
                .asked
                .get(&id.to_string())
                .map_or(0, |asked| asked.times),
            answers: self.answers(id.clone()),
            progress: f64::NEG_INFINITY,
        };
        self.asked.insert(id.to_string(), asked);
    }
}

/// What it reads.
impl Client {
    /// Sends a request; returns its result.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.result(id)
    }

    /// Sends a request that the server refuses; returns the error's code.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: Value) -> i64 {
        let id = self.request(method, params);
        let answer = self.answer(id);
        let code = answer["error"]["code"].as_i64();
        code.unwrap_or_else(|| panic!("no error: {answer}"))
    }

    /// Lists the tools, whose results are checked from now on.
    #[track_caller]
    pub fn tools(&mut self) -> Vec<Value> {
        let listed = self.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap().clone();
        for tool in &tools {
            let name = tool["name"].as_str().unwrap().to_owned();
            let schema = Structure::of(tool["outputSchema"].clone());
            self.outputs.insert(name, schema);
        }
        tools
    }

    /// Calls a tool that does what it is told; returns its structured content.
    #[track_caller]
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.call(tool, arguments);
        self.outcome(id)
    }

    /// Calls a tool that refuses; returns its structured content.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.call(tool, arguments);
        let result = self.result(id);
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Returns the structured content of a call that has succeeded.
    #[track_caller]
    pub fn outcome(&mut self, id: Id) -> Value {
        let result = self.result(id);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Returns how many answers to a request were read.
    pub fn answers(&self, id: impl Into<Value>) -> usize {
        let asked = self.asked.get(&id.into().to_string());
        asked.map_or(0, |asked| asked.answers)
    }

    /// Returns the result of a request.
    #[track_caller]
    pub fn result(&mut self, id: Id) -> Value {
        let answer = self.answer(id);
        let result = answer.get("result").cloned();
        result.unwrap_or_else(|| panic!("no result: {answer}"))
    }

    /// Returns the answer to a request, a result or an error; keeps what comes before it.
    #[track_caller]
    pub fn answer(&mut self, id: Id) -> Value {
        let what = format!("answer to {id}");
        self.message(&what, |message| is_answer(message) && message["id"] == id)
    }

    /// Returns the next answer to any request; keeps notifications.
    #[track_caller]
    pub fn next_answer(&mut self) -> Value {
        self.message("answer", is_answer)
    }

    /// Returns the next notification with this method; keeps what comes before it.
    #[track_caller]
    pub fn notification(&mut self, method: &str) -> Value {
        self.message(method, |message| message["method"] == method)
    }

    /// Returns all messages that nothing has asked for and that have arrived before the answer to a request of now.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Value> {
        let id = self.request("tools/list", json!({}));
        self.answer(id);
        self.unread.drain(..).collect()
    }

    /// Returns the first message that satisfies the predicate; keeps the others in their order.
    #[track_caller]
    pub fn message(&mut self, what: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&is_meant) {
            return self.unread.remove(at).unwrap();
        }
        let began = Instant::now();
        while let Some(left) = CEILING.checked_sub(began.elapsed()) {
            match self.read(left) {
                Some(message) if is_meant(&message) => return message,
                Some(message) => self.unread.push_back(message),
                None => break,
            }
        }
        self.fail(&format!("no {what} after {:?}", began.elapsed()))
    }

    /// Returns the next message, checked; `None` at the end of the output, or if nothing comes in time.
    #[track_caller]
    fn read(&mut self, ceiling: Duration) -> Option<Value> {
        let line = match self.lines.recv_timeout(ceiling) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        };
        if self.has_stopped_reading && !line.ends_with(b"\n") {
            return None;
        }
        self.note("←", &text(&line));
        match self.checked(&line) {
            Ok(message) => Some(message),
            Err(why) => self.fail(&format!("{why}: {}", text(&line))),
        }
    }

    fn checked(&mut self, line: &[u8]) -> Result<Value, String> {
        let line = line.strip_suffix(b"\n").ok_or("a line without its end")?;
        let message: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let asked = self.asked.get(&message["id"].to_string());
        if line.len() > MESSAGE_BYTES_MAX && !asked.is_some_and(|asked| asked.is_limited) {
            return Err("a long message".into());
        }
        if message["method"].is_string() {
            self.check_notification(&message)?;
        } else if message.get("id").is_some() {
            self.check_answer(&message)?;
        } else {
            check_error_without_request(&message)?;
        }
        Ok(message)
    }

    fn check_answer(&mut self, answer: &Value) -> Result<(), String> {
        let asked = self.asked.get_mut(&answer["id"].to_string());
        let asked = asked.ok_or("an answer to no request")?;
        asked.answers += 1;
        if asked.answers > asked.times {
            return Err("one answer too many".into());
        }
        asked.era.check_answer(&asked.method, answer)?;
        let result = &answer["result"];
        if asked.method != "tools/call" || result.is_null() {
            return Ok(());
        }
        if !asked.is_limited && result.to_string().len() > RESULT_BYTES_MAX {
            return Err("a long result".into());
        }
        let content = &result["structuredContent"];
        let [block] = &result["content"].as_array().unwrap()[..] else {
            return Err("not one block of content".into());
        };
        let shown = block["text"].as_str().unwrap_or_default();
        let is_compact = shown.len() == content.to_string().len();
        if !is_compact || serde_json::from_str::<Value>(shown).ok().as_ref() != Some(content) {
            return Err("the text is not the structured content in its compact form".into());
        }
        let tool = asked.tool.as_deref().unwrap_or_default();
        match self.outputs.get(tool) {
            Some(output) if result["isError"] != true => output.check(content),
            _ => Ok(()),
        }
    }

    fn check_notification(&mut self, message: &Value) -> Result<(), String> {
        if message["method"] != "notifications/progress" {
            return self.era.check_notification(message);
        }
        let token = message["params"].get("progressToken");
        let mut asked = self.asked.values_mut();
        let asked = asked.find(|asked| asked.progress_token.as_ref() == token);
        let asked = asked.ok_or("progress of no request")?;
        asked.era.check_notification(message)?;
        if asked.answers > 0 {
            return Err("progress after the answer".into());
        }
        let progress = message["params"]["progress"].as_f64().unwrap_or(f64::NAN);
        if progress > asked.progress {
            asked.progress = progress;
            Ok(())
        } else {
            Err(format!("no progress after {}", asked.progress))
        }
    }

    fn note(&mut self, direction: &str, line: &str) {
        let mut shown: String = line.trim_end().chars().take(1_000).collect();
        shown.insert_str(0, direction);
        self.exchange.push_back(shown);
        if self.exchange.len() > SHOWN_MAX {
            self.exchange.pop_front();
        }
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        panic!(
            "{why}\n--- the last messages\n{:#?}\n--- standard error\n{}",
            self.exchange,
            self.complaints()
        )
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.has_ended {
            // A test has failed, or needs no end in order.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn is_answer(message: &Value) -> bool {
    !message["method"].is_string()
}
