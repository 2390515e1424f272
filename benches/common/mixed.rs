//! A typical history: mostly output of panes, some output of models and tools. Deterministic.

use std::path::Path;
use std::time::Duration;

use td_observe::event::{Completion, GapEvidence, GapReason, IterationOutcome, OutputStream};
use td_observe::history::{DataDir, Rotation, RunDirectory, RunInfo, SyncPolicy};
use td_observe::internals::history::{LogOptions, LogWriter, open_run};
use td_observe::{Clock, Envelope, ExecutionId, TdEvent, Timestamp};

use super::support::wait_for;

const ID: &str = "mixed@1768989600";
/// One event in this many is a gap: gaps are rare, and people search for them.
const GAP_EACH: u64 = 20_000;
const BATCH: usize = 256;
const PACKED_WITHIN: Duration = Duration::from_secs(120);

/// A pattern that matches exactly one event, in the middle.
pub const MARKER: &str = "needle [0-9]+ is here";

/// Writes a run of about this size with the log's own writer; closed files are compressed when it
/// returns.
pub fn write_run(root: &Path, bytes: u64, rotation: Rotation) -> RunDirectory {
    write_run_of(ID, root, bytes, rotation)
}

/// Writes a run as [`write_run`] does, with this id.
pub fn write_run_of(id: &str, root: &Path, bytes: u64, rotation: Rotation) -> RunDirectory {
    let clock = Clock::system();
    let run = DataDir::new(root).run(&id.into());
    let options = LogOptions {
        sync: SyncPolicy::Never,
        rotation,
        ..LogOptions::default()
    };
    let mut log = LogWriter::start(options, clock.clone()).unwrap();
    let open = open_run(&run, RunInfo::default(), clock.wall()).unwrap();
    log.attach(open, clock.now());
    let mut events = Mixed::new(id);
    let mut has_marker = false;
    while events.bytes < bytes {
        let mut batch: Vec<Envelope> = (0..BATCH).map(|_| events.next()).collect();
        if !has_marker && events.bytes > bytes / 2 {
            has_marker = true;
            batch.push(events.marker());
        }
        log.append(&batch, clock.now());
        log.tick(clock.now());
    }
    wait_for("the closed files, compressed", PACKED_WITHIN, || {
        log.tick(clock.now());
        let names = std::fs::read_dir(run.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let plain: Vec<String> = names
            .filter(|name| name.starts_with("events.0") && name.ends_with("jsonl"))
            .collect();
        if plain.is_empty() { Ok(()) } else { Err(plain) }
    });
    assert!(log.finish(clock.now()).lost.is_empty());
    run
}

struct Mixed {
    id: ExecutionId,
    /// The state of a xorshift generator.
    state: u64,
    seq: u64,
    micros: i64,
    line: [i64; 4],
    /// The approximate size of the generated lines.
    bytes: u64,
}

const WORDS: [&str; 40] = [
    "Compiling",
    "src/main.rs",
    "warning:",
    "unused",
    "variable",
    "error[E0308]:",
    "expected",
    "found",
    "test",
    "ok",
    "FAILED",
    "in",
    "0.03s",
    "cc",
    "-O2",
    "-Wall",
    "-c",
    "module_17.c",
    "linking",
    "target/debug/app",
    "the",
    "file",
    "has",
    "changed",
    "since",
    "then",
    "->",
    "\"quoted\"",
    "C:\\path",
    "reading",
    "config.toml",
    "200",
    "OK",
    "GET",
    "/api/v1/items?page=2",
    "done",
    "(3/12)",
    "│",
    "✓",
    "naïve",
];

impl Mixed {
    fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            state: 0x9e37_79b9_7f4a_7c15,
            seq: 0,
            micros: 1_768_989_600_000_000,
            line: [0; 4],
            bytes: 0,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % end
    }

    fn words(&mut self, most: usize) -> String {
        let count = 1 + self.below(most);
        let words: Vec<&str> = (0..count).map(|_| WORDS[self.below(WORDS.len())]).collect();
        words.join(" ")
    }

    fn next(&mut self) -> Envelope {
        let event = self.event();
        self.envelope(event)
    }

    fn marker(&mut self) -> Envelope {
        let chunk = "hay\nthe needle 4711 is here\nhay\n".to_owned();
        let event = self.update(0, chunk);
        self.envelope(event)
    }

    fn envelope(&mut self, event: TdEvent) -> Envelope {
        self.seq += 1;
        self.micros += 1 + self.below(2_000) as i64;
        // Braces, names and the time, in addition to the text.
        self.bytes += 178 + text_bytes(&event);
        Envelope::new(Some(self.seq), Timestamp::from_micros(self.micros), event)
    }

    fn update(&mut self, pane: usize, chunk: String) -> TdEvent {
        let first_line = self.line[pane];
        self.line[pane] += chunk.matches('\n').count() as i64;
        TdEvent::output_update(
            self.id.clone(),
            &format!("%{pane}").as_str().into(),
            first_line,
            &chunk,
        )
    }

    fn event(&mut self) -> TdEvent {
        let execution_id = self.id.clone();
        let iteration = 1 + (self.seq / 5_000) as u32;
        let pane = self.below(4);
        if self.seq % GAP_EACH == GAP_EACH - 1 {
            return TdEvent::output_gap(
                execution_id,
                &format!("%{pane}").as_str().into(),
                self.line[pane],
                Some(17),
                GapReason::HistoryTrimmed,
                GapEvidence::Confirmed,
            );
        }
        match self.below(100) {
            0..58 => {
                let lines = 1 + self.below(5);
                let chunk: String = (0..lines).map(|_| self.words(14) + "\n").collect();
                self.update(pane, chunk)
            }
            58..72 => TdEvent::output_revised(
                execution_id,
                &format!("%{pane}").as_str().into(),
                self.line[pane],
                &self.words(10),
            ),
            72..88 => TdEvent::token_received(execution_id, iteration, &self.words(3)),
            88..91 => {
                TdEvent::tool_call_started(execution_id, iteration, "edit_file", &self.words(12))
            }
            91..94 => TdEvent::tool_call_completed(
                execution_id,
                iteration,
                "edit_file",
                Completion::Succeeded,
                &self.words(20),
                12,
            ),
            94..97 => TdEvent::validation_output(
                execution_id,
                iteration,
                &self.words(14),
                OutputStream::Stdout,
            ),
            // Some programs colour output to a pipe: an escape character, which JSON writes as a number.
            97 => TdEvent::execution_output(
                execution_id,
                OutputStream::Stdout,
                &format!("\u{1b}[32m{}\u{1b}[0m\n", self.words(10)),
            ),
            98 => TdEvent::iteration_started(execution_id, iteration),
            _ => TdEvent::iteration_completed(
                execution_id,
                iteration,
                IterationOutcome::ValidationFailed { exit_code: 1 },
            ),
        }
    }
}

fn text_bytes(event: &TdEvent) -> u64 {
    let text = match event {
        TdEvent::OutputUpdate { chunk: text, .. }
        | TdEvent::OutputRevised { text, .. }
        | TdEvent::ToolCallStarted {
            tool_args_summary: text,
            ..
        }
        | TdEvent::ToolCallCompleted {
            result_summary: text,
            ..
        } => text.len(),
        _ => 0,
    };
    text as u64
}
