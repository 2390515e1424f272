//! Histories that a test writes line by line, as JSON that no code of this crate has made.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use td_observe::Timestamp;
use td_observe::internals::history::encode_name;

/// The start of every scripted night: 2026-11-28, 20:00 UTC.
pub const EVENING: i64 = 1_795_896_000;

/// Returns the time of a second of the night.
pub fn at(second: f64) -> Timestamp {
    let micros = (second * 1e6).round();
    Timestamp::from_micros(EVENING * 1_000_000 + micros as i64)
}

/// One event of a script.
#[derive(Clone, Debug)]
pub struct Scripted {
    pub second: f64,
    pub kind: String,
    /// The fields, with the execution.
    pub fields: Value,
}

impl Scripted {
    pub fn text(&self, name: &str) -> &str {
        self.fields[name].as_str().unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> u64 {
        self.fields[name].as_u64().unwrap_or_default()
    }
}

/// The history of one run.
#[derive(Debug)]
pub struct Script {
    pub id: String,
    pub kind: &'static str,
    pub events: Vec<Scripted>,
    /// The writers of the log, each with the index of its first event.
    writers: Vec<(u32, usize)>,
    pub end: Option<(&'static str, Option<i32>)>,
}

impl Script {
    pub fn new(id: &str, kind: &'static str) -> Self {
        Self {
            id: id.to_owned(),
            kind,
            events: Vec::new(),
            writers: vec![(1001, 0)],
            end: None,
        }
    }

    /// Adds an event at a second of the night.
    pub fn add(&mut self, second: f64, kind: &str, fields: Value) -> &mut Self {
        let mut fields = fields;
        fields["execution_id"] = json!(self.id);
        self.events.push(Scripted {
            second,
            kind: kind.to_owned(),
            fields,
        });
        self
    }

    /// Another process goes on with the log.
    pub fn restart(&mut self) -> &mut Self {
        let (last, _) = self.writers[self.writers.len() - 1];
        self.writers.push((last + 1, self.events.len()));
        self
    }

    /// The run ends in this state.
    pub fn ends(&mut self, state: &'static str, exit_status: Option<i32>) -> &mut Self {
        self.end = Some((state, exit_status));
        self
    }

    /// Writes the run; returns its directory.
    pub fn write(&self, data: &Path) -> PathBuf {
        let directory = data.join("runs").join(encode_name(&self.id));
        fs::create_dir_all(&directory).unwrap();
        let line = |seq: u64, second: f64, event: Value| {
            json!({"seq": seq, "ts": at(second), "event": event}).to_string() + "\n"
        };
        let mut log = String::new();
        for (index, event) in self.events.iter().enumerate() {
            let seq = index as u64 + 1;
            if let Some((pid, _)) = self.writers.iter().find(|(_, first)| *first == index) {
                let header = json!({
                    "type": "LogOpened", "execution_id": self.id, "schema": 1, "version": "0.1.0",
                    "host": "night", "pid": pid, "first_seq": seq,
                });
                log.push_str(&line(0, event.second, header));
            }
            // The type comes first, as in the logs of this program.
            let mut fields = serde_json::Map::new();
            fields.insert("type".to_owned(), json!(event.kind));
            fields.extend(event.fields.as_object().unwrap().clone());
            log.push_str(&line(seq, event.second, Value::Object(fields)));
        }
        fs::write(directory.join("events.jsonl"), log).unwrap();
        let last = self.events.last().map_or(0.0, |event| event.second);
        let first = self.events.first().map_or(0.0, |event| event.second);
        let mut metadata = json!({
            "execution_id": self.id, "kind": self.kind, "label": self.id.split('@').next(),
            "created": at(first), "updated": at(last), "pid": 1001, "host": "night",
        });
        if self.kind == "tmux" {
            // The server is on another host, so that nobody knows what became of its panes.
            metadata["identity"] = json!({
                "socket": "/tmp/night", "server_pid": 7, "server_started": 1, "session_id": "$1", "session_created": 1,
            });
        }
        match self.end {
            Some((state, exit_status)) => {
                metadata["state"] = json!(state);
                metadata["next_seq"] = json!(self.events.len() + 1);
                if let Some(status) = exit_status {
                    metadata["exit_status"] = json!(status);
                }
            }
            None => metadata["state"] = json!("running"),
        }
        fs::write(directory.join("metadata.json"), metadata.to_string()).unwrap();
        directory
    }
}
