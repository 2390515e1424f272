//! `--junit FILE`: the outcome of `run` and `loop` for CI.
//!
//! `td-junit` blocks on its subscription and ends when the bus is closed.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::live;
use crate::bus::Delivery;
use crate::engine::Engine;
use crate::face::JunitReport;
use crate::thread::{self, Handle};

/// The file, which remains empty until the end, so that it never contains the report of an earlier run; and the
/// report that is being collected.
pub(super) struct JunitFile {
    path: PathBuf,
    file: File,
    thread: Handle<JunitReport>,
}

impl JunitFile {
    /// Creates the file, and starts to collect events. Call it before the source is attached.
    pub fn collect(path: &Path, engine: &Engine) -> Result<Self, Failure> {
        let file = File::create(path)
            .map_err(|cause| usage!("--junit: cannot write {path:?}: {cause}"))?;
        let mut events = engine.subscribe_with(live::everything());
        let thread = thread::spawn("td-junit", move || {
            let mut report = JunitReport::default();
            for delivery in events.iter() {
                match delivery {
                    // The final state of a line follows its intermediate states.
                    Delivery::Event(event) if event.seq.is_none() => {}
                    Delivery::Event(event) => report.push(&event),
                    Delivery::Lagged { missed } => report.lagged(missed),
                }
            }
            report
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            thread,
        })
    }

    /// Writes the report, once the bus is closed. A failure does not change the exit code.
    pub fn finish(mut self, problem: Option<&str>) {
        let report = match self.thread.join() {
            Ok(report) => report,
            Err(panicked) => return super::output::print_message(&panicked.to_string()),
        };
        let written = self.file.write_all(report.finish(problem).as_bytes());
        if let Err(cause) = written {
            message!("--junit: cannot write {:?}: {cause}", self.path);
        }
    }
}
