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

/// The file, which remains empty until the end, so that it never contains the report of an earlier run.
pub(super) struct JunitFile {
    path: PathBuf,
    file: File,
}

/// A report that is being collected.
pub(super) struct Collecting {
    to: JunitFile,
    thread: Handle<JunitReport>,
}

impl JunitFile {
    /// Creates the file before anything is run.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path)
            .map_err(|cause| Failure::usage(format!("--junit: cannot write {path:?}: {cause}")))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Starts to collect events. Call it before the source is attached.
    pub fn collect(self, engine: &Engine) -> Result<Collecting, Failure> {
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
        Ok(Collecting { to: self, thread })
    }
}

impl Collecting {
    /// Writes the report, once the bus is closed. A failure does not change the exit code.
    pub fn finish(self, problem: Option<&str>) {
        let JunitFile { path, mut file } = self.to;
        let report = match self.thread.join() {
            Ok(report) => report,
            Err(panicked) => return super::output::print_message(&panicked.to_string()),
        };
        let written = file.write_all(report.finish(problem).as_bytes());
        if let Err(cause) = written {
            super::output::print_message(&format!("--junit: cannot write {path:?}: {cause}"));
        }
    }
}
