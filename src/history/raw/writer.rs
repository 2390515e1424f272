//! The recorder's thread: takes what happened off the queue, makes lines of it and writes them, whatever the disk says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::queue::{Key, Message, Queue, Taken};
use super::tape::{FILES_MAX, OpenTape};
use super::{LostTape, RawReport, Say};
use crate::redact::Rules;
use crate::timestamp::Timestamp;

/// How long output may wait to be joined with more of it; see the recording.
const JOIN: Duration = Duration::from_millis(16);
/// How long writing rests after an error: a full disk is not made emptier by asking.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct Work {
    queue: Arc<Queue>,
    rules: Rules,
    say: Say,
    tapes: FxHashMap<Key, OpenTape>,
    /// Counts writes, to find the tape that was written least recently.
    uses: u64,
    /// That the disk takes nothing was said.
    is_told: bool,
    /// The disk takes nothing, and the end does not wait for it.
    is_hopeless: bool,
    report: RawReport,
}

/// What became of a tape's lines.
enum Wrote {
    All,
    /// The disk is full: try again.
    Full(io::Error),
    /// It cannot be written, and waiting does not help.
    Never(io::Error),
}

impl Work {
    pub fn new(queue: Arc<Queue>, rules: Rules, say: Say) -> Self {
        Self {
            queue,
            rules,
            say,
            tapes: FxHashMap::default(),
            uses: 0,
            is_told: false,
            is_hopeless: false,
            report: RawReport::default(),
        }
    }

    pub fn run(mut self) -> RawReport {
        loop {
            let is_pending = self.tapes.values().any(OpenTape::is_pending);
            match self.queue.take(is_pending.then_some(JOIN)) {
                Taken::Batch(messages, bytes) => {
                    let mut latest = None;
                    for message in messages {
                        latest = self.take(message).max(latest);
                    }
                    // Those of quiet panes do not wait for the loud ones to be quiet.
                    if let Some(latest) = latest {
                        self.tapes
                            .values_mut()
                            .for_each(|tape| tape.flush_due(latest));
                    }
                    self.write_all();
                    self.queue.done(bytes);
                }
                Taken::Idle => {
                    self.tapes.values_mut().for_each(OpenTape::flush);
                    self.write_all();
                }
                Taken::Closed => break,
            }
        }
        self.tapes.values_mut().for_each(OpenTape::finish);
        self.write_all();
        self.report
    }

    /// Takes a message; when it happened.
    fn take(&mut self, message: Message) -> Option<Timestamp> {
        match message {
            Message::Pane {
                run,
                pane,
                what,
                at,
            } => {
                let key = (run.number, pane.clone());
                let rules = &self.rules;
                let tape = self
                    .tapes
                    .entry(key.clone())
                    .or_insert_with(|| OpenTape::new(run, pane, rules.clone()));
                if tape.take(what, at) {
                    self.end(&key);
                }
                Some(at)
            }
            Message::EndRun(number) => {
                let of_run = self.tapes.keys().filter(|(run, _)| *run == number);
                let keys: Vec<Key> = of_run.cloned().collect();
                for key in keys {
                    if let Some(tape) = self.tapes.get_mut(&key) {
                        tape.finish();
                    }
                    self.end(&key);
                }
                None
            }
        }
    }

    /// Writes the rest of a tape and forgets it.
    fn end(&mut self, key: &Key) {
        self.write(key);
        self.tapes.remove(key);
    }

    fn write_all(&mut self) {
        let due = self.tapes.iter().filter(|(_, tape)| tape.is_due());
        let keys: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.write(key);
        }
    }

    /// Writes a tape's lines. On a full disk it goes on trying until there is room, or the end has
    /// come: meanwhile the queue fills, and those who fill it learn that there is no room.
    fn write(&mut self, key: &Key) {
        loop {
            match self.try_write(key) {
                Wrote::All => {
                    if std::mem::take(&mut self.is_told) && !self.is_hopeless {
                        self.tell(key, "raw recordings are written again");
                    }
                    return;
                }
                Wrote::Full(cause) if !self.is_hopeless => {
                    if !std::mem::replace(&mut self.is_told, true) {
                        let what =
                            format!("raw recordings cannot be written, and wait for room: {cause}");
                        self.tell(key, &what);
                    }
                    // The end makes one more try, then no other: a full disk is full for all.
                    if self.queue.rest(RETRY_INTERVAL) {
                        if matches!(self.try_write(key), Wrote::All) {
                            return;
                        }
                        self.is_hopeless = true;
                        self.lose(key, &cause);
                        return;
                    }
                }
                Wrote::Never(cause) => {
                    let what = format!("a raw recording cannot be written and is left: {cause}");
                    self.tell(key, &what);
                    self.lose(key, &cause);
                    return;
                }
                Wrote::Full(cause) => {
                    self.lose(key, &cause);
                    return;
                }
            }
        }
    }

    fn try_write(&mut self, key: &Key) -> Wrote {
        self.make_room_for_a_file(key);
        let Some(tape) = self.tapes.get_mut(key) else {
            return Wrote::All;
        };
        if !tape.is_due() {
            return Wrote::All;
        }
        self.uses += 1;
        tape.used_at = self.uses;
        match tape.write() {
            Ok(bytes) => {
                self.report.bytes_written += bytes;
                Wrote::All
            }
            Err(cause) if is_full(&cause) => Wrote::Full(cause),
            Err(cause) => Wrote::Never(cause),
        }
    }

    /// Closes the file that was written least recently, if as many as may be are open.
    fn make_room_for_a_file(&mut self, key: &Key) {
        if self.tapes.get(key).is_none_or(OpenTape::is_open) {
            return;
        }
        let is_open = |tape: &&mut OpenTape| tape.is_open();
        if self.tapes.values_mut().filter(is_open).count() < FILES_MAX {
            return;
        }
        let open = self.tapes.values_mut().filter(is_open);
        if let Some(tape) = open.min_by_key(|tape| tape.used_at) {
            tape.close();
        }
    }

    fn lose(&mut self, key: &Key, cause: &io::Error) {
        if let Some(tape) = self.tapes.get_mut(key)
            && !tape.is_given_up
        {
            tape.give_up();
            self.report.lost.push(LostTape {
                execution_id: tape.run.directory.execution_id().clone(),
                pane: tape.pane.clone(),
                path: tape.run.directory.path().join("raw"),
                why: cause.to_string(),
            });
        }
    }

    fn tell(&self, key: &Key, what: &str) {
        if let Some(tape) = self.tapes.get(key) {
            (self.say)(tape.run.directory.execution_id(), what);
        }
    }
}

/// Whether there may be room later.
fn is_full(cause: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull, WriteZero};
    matches!(
        cause.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem | WriteZero
    )
}
