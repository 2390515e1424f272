//! Reads the next events of one run from the observer for a reader that shows the present: waits for an observer,
//! counts what is missing, and skips old events.

use std::time::Instant;

use crate::api::{EventSource, FindObserver, Unavailable};
use crate::clock::Clock;
use crate::event::{Envelope, ExecutionId, LogGapRange};
use crate::face::view_lines::weight;
use crate::feed::Next;
use crate::timestamp::Timestamp;

/// The age of an event from which on the reader counts as too slow, in microseconds.
const BEHIND_MICROS_MAX: i64 = 3_000_000;

/// The events of a run after a number.
pub(super) struct RunStream {
    find: FindObserver,
    clock: Clock,
    execution: ExecutionId,
    /// `None` until the observer is found.
    source: Option<Box<dyn EventSource>>,
    /// The number of the last event.
    last: u64,
    /// The events after the last one that are missing so far.
    missed: u64,
    /// True if the next events are skipped, because the reader shows the present.
    skips: bool,
    /// The size in memory of the old events that a reader who comes, or comes back, gets before events are skipped.
    old_bytes_max: usize,
    /// The size of old events since the stream was opened, and that time.
    old_bytes: usize,
    opened_at: Timestamp,
}

/// What a run has next.
pub(super) enum RunItem {
    Event {
        envelope: Box<Envelope>,
        /// The number of events before it that are missing: they are in no log, or were skipped.
        missed: u64,
        /// True if the events up to the present are skipped after it. The log has them.
        #[cfg_attr(not(feature = "tui"), allow(dead_code))]
        skips: bool,
    },
    /// Nothing arrived before the deadline.
    Nothing,
    /// No observer answers, for this reason. The caller pauses before the next call.
    Unavailable(String),
    /// The observer refuses to stream, for this reason.
    Refused(String),
    /// The observer of this process has ended.
    End,
}

impl RunStream {
    /// Creates the stream of the events after a number. Does not look for the observer yet.
    pub fn new(
        (find, clock): (&FindObserver, &Clock),
        execution: &ExecutionId,
        after: u64,
        old_bytes_max: usize,
    ) -> Self {
        Self {
            find: find.clone(),
            clock: clock.clone(),
            execution: execution.clone(),
            source: None,
            last: after,
            missed: 0,
            skips: false,
            old_bytes_max,
            old_bytes: 0,
            opened_at: Timestamp::default(),
        }
    }

    /// Returns the number of the last event.
    #[cfg(feature = "serve")]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the next item; waits for it until the deadline.
    pub fn next(&mut self, deadline: Instant) -> RunItem {
        loop {
            let source = match &mut self.source {
                Some(source) => source,
                None => match self.open() {
                    Ok(source) => self.source.insert(source),
                    Err(why) => return RunItem::Unavailable(why),
                },
            };
            match source.next(deadline) {
                Ok(Next::Event(envelope)) => return self.event(envelope.into_envelope()),
                Ok(Next::Missed(missed)) => {
                    self.missed += missed;
                    self.last += missed;
                }
                Ok(Next::Timeout) => return RunItem::Nothing,
                Ok(Next::End) => return RunItem::End,
                Err(Unavailable::Refused(why)) => return RunItem::Refused(why),
                Err(Unavailable::Broken(cause)) => {
                    self.source = None;
                    return RunItem::Unavailable(format!("the observer is gone: {cause}"));
                }
            }
        }
    }

    fn open(&mut self) -> Result<Box<dyn EventSource>, String> {
        let after = (!self.skips).then_some(self.last);
        self.old_bytes = 0;
        self.opened_at = self.clock.wall();
        let observer = (self.find)()?;
        let opened = observer.events_of(&self.execution, after, &self.clock);
        opened.map_err(|error| format!("{error:?}"))
    }

    fn event(&mut self, envelope: Envelope) -> RunItem {
        let mut missed = std::mem::take(&mut self.missed);
        self.skips = false;
        if let Some(numbers) = LogGapRange::of(&envelope) {
            let first = (numbers.first).min((numbers.last + 1).saturating_sub(envelope.n));
            missed += first.saturating_sub(self.last + 1);
            self.last = numbers.last;
        }
        let age = self
            .clock
            .wall()
            .micros()
            .saturating_sub(envelope.ts.micros());
        if age > BEHIND_MICROS_MAX {
            self.old_bytes += weight(&envelope);
            // Old events of the time before the reader came do not show that it is slow.
            if envelope.ts >= self.opened_at || self.old_bytes > self.old_bytes_max {
                // Older events are skipped, because the reader shows the present. The log has them, and they are
                // counted by their numbers.
                self.skips = true;
                self.source = None;
            }
        }
        RunItem::Event {
            envelope: Box::new(envelope),
            missed,
            skips: self.skips,
        }
    }
}
