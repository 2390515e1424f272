//! Faces that are attached meanwhile, and are cut off.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

/// A face that prints lines of JSON, each of which is checked.
pub struct Watcher {
    child: Child,
    reader: JoinHandle<Vec<String>>,
}

impl Watcher {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = thread::spawn(move || {
            let mut faults = Vec::new();
            let mut last: Option<String> = None;
            for line in lines.map_while(Result::ok) {
                if let Some(torn) = last.replace(line).filter(|line| !is_json(line)) {
                    faults.push(format!("a face printed {torn:?}"));
                }
            }
            // The last line of one that is killed may be torn.
            faults
        });
        Self { child, reader }
    }

    /// Kills it; returns what was wrong with its lines.
    pub fn cut(mut self) -> Vec<String> {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        self.reader.join().unwrap()
    }
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
}
