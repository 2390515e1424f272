//! A pane that is followed by its bytes: fed, and compared with tmux's screen now and then.
//!
//! Bytes tell what the lines are, looks what the screen is. A look can be compared with the bytes
//! only when it is known which of them had come before it: so the drain is asked for a mark after
//! the look, and if no byte has come from before the look until the mark, the look shows what all
//! the bytes have made.

use std::time::{Duration, Instant};

use crate::event::{Cursor, Styles};
use crate::tmux::{DroppedBytes, PipeToken};
use crate::track::{
    Capture, Change, NoticeParser, ShellMark, StreamTracker, SyncPoint, TerminalNotice, Tracker,
};

/// A pane must have been quiet for so long before it is looked at where that is pressing. A prompt,
/// a spinner's pause: hardly a program prints without one.
const QUIET: Duration = Duration::from_millis(20);

/// And so long where it is not.
const REST: Duration = Duration::from_millis(500);

/// So often a pane that prints and rests in between is compared with tmux's screen, and after the last
/// output once: a look costs the server half a millisecond, and what differs is put right within 5 s.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// And so often one that never rests for so long.
const CHECK_RESTLESS: Duration = Duration::from_secs(10);

/// When bytes came in between, a pressing look is taken again after this time, doubled up to the
/// second.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: Duration = Duration::from_secs(1);

/// What a look shows below what the bytes have made is on its way, unless none have come for so long.
const SURE: Duration = Duration::from_secs(1);

/// A drain that has not come after this time does not come.
const COMES: Duration = Duration::from_secs(2);
const COMES_AGAIN: Duration = Duration::from_millis(500);
const STOOD_STILL: Duration = Duration::from_secs(10);

/// A line that was said and is rewritten, as programs do that draw below what they have printed,
/// makes lines wait for so long, for as long as that goes on.
const RESTLESS_SETTLE: Duration = Duration::from_millis(100);
const RESTLESS: Duration = Duration::from_secs(3);

/// What shells say of their commands begins so (OSC 133).
const SHELL_MARK: &[u8] = b"\x1b]133;";

/// A pane that is followed by its bytes.
#[derive(Debug)]
pub(in crate::observe) struct Streaming {
    tracker: StreamTracker,
    token: PipeToken,
    /// The beginning of the looks' clock.
    epoch: Instant,
    pipe: Pipe,
    /// When bytes came last.
    fed_at: Instant,
    /// Bytes have come since the screen was compared last.
    is_unchecked: bool,
    checked_at: Instant,
    check: Check,
    /// A comparison was disturbed: it is tried again sooner.
    is_retried: bool,
    /// Of the pane, what the listing tells, when it was compared last.
    compared: Option<Listed>,
    /// The screen is not what the bytes have made.
    parted: bool,
    again: Duration,
    restless_until: Option<Instant>,
    notices: NoticeParser,
}

/// Of a pane, as much as the listing and a look both tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct Listed {
    pub history_size: u32,
    pub cursor: Cursor,
    pub alternate: bool,
}

/// What is known of the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipe {
    /// The drain has not come yet.
    Coming {
        until: Instant,
        /// It has been waited for once more: the observer itself may have stood still, and what has
        /// come since is on its way to here.
        again: bool,
    },
    Open,
    /// All that came through it has been fed.
    Ended,
    /// What was in it is gone.
    Lost,
}

/// A look that is compared.
#[derive(Debug)]
enum Check {
    None,
    /// It is wanted, or on its way; whether bytes have come since.
    Asked {
        disturbed: bool,
    },
    /// It is there, and the mark is not.
    Marking {
        disturbed: bool,
        seam: Box<SyncPoint>,
    },
}

/// What came of bytes, in order.
#[derive(Debug)]
pub(in crate::observe) enum Fed {
    Changes(Vec<Change>),
    Mark(ShellMark),
    /// The program told its terminal something beside text.
    Notice(TerminalNotice),
}

/// What came of a look.
#[derive(Debug, Default)]
pub(in crate::observe) struct Compared {
    pub changes: Vec<Change>,
    /// The look, where it shows what all bytes have made.
    pub seam: Option<SyncPoint>,
    /// It showed something else than the bytes had made.
    pub parted: bool,
}

impl Streaming {
    /// Goes on with the bytes that follow a seam, whose look the tracker has taken in.
    pub fn begin(
        tracker: Tracker,
        seam: &SyncPoint,
        token: PipeToken,
        (epoch, now): (Instant, Instant),
    ) -> Self {
        let mut tracker = StreamTracker::new(tracker, seam);
        tracker.set_settle_period(Duration::ZERO);
        Self {
            tracker,
            token,
            epoch,
            pipe: Pipe::Coming {
                until: now + COMES,
                again: false,
            },
            fed_at: now,
            is_unchecked: false,
            checked_at: now,
            check: Check::None,
            is_retried: false,
            compared: None,
            parted: false,
            again: AGAIN,
            restless_until: None,
            notices: NoticeParser::default(),
        }
    }

    pub fn token(&self) -> &PipeToken {
        &self.token
    }

    pub fn tracker(&self) -> &Tracker {
        self.tracker.tracker()
    }

    /// In which colours lines were written.
    pub fn styles(&self, first_line: i64, text: &str) -> Styles {
        self.tracker.styles(first_line, text)
    }

    /// What the pane shows, by its bytes.
    pub fn capture(&self) -> Capture {
        self.tracker.capture()
    }

    /// Whether what follows cannot come through this pipe any more.
    pub fn is_over(&self) -> bool {
        matches!(self.pipe, Pipe::Ended | Pipe::Lost)
    }

    /// Whether all that came through the pipe has been fed, and no more will come.
    pub fn has_all(&self) -> bool {
        self.pipe == Pipe::Ended
    }

    /// The drain is there.
    pub fn begun(&mut self) {
        if matches!(self.pipe, Pipe::Coming { .. }) {
            self.pipe = Pipe::Open;
        }
    }

    /// The pipe is over: in order, or not.
    pub fn over(&mut self, in_order: bool) {
        self.pipe = if in_order { Pipe::Ended } else { Pipe::Lost };
        self.check = Check::None;
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<Fed> {
        self.disturb(now);
        if self.restless_until.is_some_and(|until| until <= now) {
            self.restless_until = None;
            self.tracker.set_settle_period(Duration::ZERO);
        }
        let at = self.time(now);
        self.tracker.advance_clock(at);
        let mut fed = Vec::new();
        for part in at_marks(bytes) {
            if part.starts_with(SHELL_MARK) {
                // What was printed before is said before.
                self.push(&mut fed, at, now);
            }
            let mut rest = part;
            while !rest.is_empty() {
                let taken = self.tracker.feed(rest);
                rest = &rest[taken..];
                // A part begins with what the shell says of what follows.
                fed.extend(self.tracker.shell_marks().into_iter().map(Fed::Mark));
                self.push(&mut fed, at, now);
            }
        }
        // What stood at the last of these moments has settled, unless it is to stand longer.
        self.push(&mut fed, at, now);
        let mut notices = Vec::new();
        self.notices.push(bytes, &mut notices);
        fed.extend(notices.into_iter().map(Fed::Notice));
        fed
    }

    fn push(&mut self, fed: &mut Vec<Fed>, at: Duration, now: Instant) {
        let changes = self.tracker.changes(at);
        self.note(&changes, now);
        if !changes.is_empty() {
            fed.push(Fed::Changes(changes));
        }
    }

    /// Another program has begun in the pane, after the end of the one before was seen.
    pub fn respawned(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.respawned(self.time(now))
    }

    /// Bytes are missing here.
    pub fn dropped(&mut self, dropped: DroppedBytes, now: Instant) -> Vec<Change> {
        self.disturb(now);
        self.part();
        self.tracker
            .bytes_dropped(dropped.line_ends, self.time(now))
    }

    /// When [`Streaming::due`] will have something to say, if nothing comes.
    pub fn next_due(&self) -> Option<Instant> {
        let said = self.tracker.deadline().map(|at| self.epoch + at);
        let comes = match self.pipe {
            Pipe::Coming { until, .. } => Some(until),
            _ => None,
        };
        [said, comes].into_iter().flatten().min()
    }

    /// What has settled by now.
    pub fn due(&mut self, now: Instant) -> Vec<Change> {
        match self.pipe {
            Pipe::Coming { until, again } if until <= now => match again {
                false => {
                    // Late by itself: it stood still, and has much to do now.
                    let stood_still = now.saturating_duration_since(until) > COMES_AGAIN;
                    let wait = if stood_still {
                        STOOD_STILL
                    } else {
                        COMES_AGAIN
                    };
                    let until = now + wait;
                    self.pipe = Pipe::Coming { until, again: true };
                }
                true => self.over(false),
            },
            _ => {}
        }
        let at = self.time(now);
        if self.tracker.deadline().is_none_or(|due| due > at) {
            return Vec::new();
        }
        let changes = self.tracker.changes(at);
        self.note(&changes, now);
        changes
    }

    /// The screen is not what the bytes have made: it has been resized, or made anew.
    pub fn part(&mut self) {
        self.parted = true;
        self.again = AGAIN;
    }

    /// Whether a look is wanted now.
    pub fn wants_look(&self, now: Instant) -> bool {
        self.check_at().is_some_and(|at| at <= now)
    }

    /// When a look is wanted, if nothing comes.
    pub fn check_at(&self) -> Option<Instant> {
        if self.pipe != Pipe::Open || !matches!(self.check, Check::None) {
            return None;
        }
        if self.parted {
            return Some((self.fed_at + QUIET).max(self.checked_at + self.again));
        }
        let every = match self.is_retried {
            true => self.again,
            false => CHECK_EVERY,
        };
        let rested = (self.fed_at + REST).max(self.checked_at + every);
        let restless = (self.fed_at + QUIET).max(self.checked_at + CHECK_RESTLESS);
        self.is_unchecked.then_some(rested.min(restless))
    }

    /// What the listing tells of a pane that rests. Where that is not what its bytes have made
    /// (`send-keys -R` and `clear-history` change a pane without any), a look is wanted.
    pub fn listed(&mut self, listed: Listed, now: Instant) {
        let is_at_rest = now.saturating_duration_since(self.fed_at) >= REST;
        if !is_at_rest || self.is_unchecked || self.compared == Some(listed) {
            return;
        }
        let (history_size, cursor, alternate) = self.tracker.position();
        let made = Listed {
            history_size,
            cursor,
            alternate,
        };
        if listed != made {
            // Once for each state, so that what cannot be put right is not looked at for ever.
            self.compared = Some(listed);
            self.is_unchecked = true;
        }
    }

    /// How far above the screen a look must reach to be compared.
    pub fn rows_to_compare(&self) -> u32 {
        self.tracker.rows_to_compare()
    }

    /// A look is being asked for.
    pub fn looking(&mut self) {
        self.check = Check::Asked { disturbed: false };
    }

    /// The look; whether a mark is to be asked for.
    pub fn looked(&mut self, seam: SyncPoint, now: Instant) -> bool {
        let disturbed = !matches!(self.check, Check::Asked { disturbed: false });
        if disturbed {
            self.try_again(now);
            return false;
        }
        let seam = Box::new(seam);
        self.check = Check::Marking { disturbed, seam };
        true
    }

    /// No look could be taken.
    pub fn not_looked(&mut self, now: Instant) {
        if matches!(self.check, Check::Asked { .. }) {
            self.try_again(now);
        }
    }

    fn try_again(&mut self, now: Instant) {
        self.check = Check::None;
        self.checked_at = now;
        self.is_retried = true;
        self.again = (self.again * 2).min(AGAIN_MAX);
    }

    /// All bytes have come that were there at the mark.
    pub fn marked(&mut self, now: Instant) -> Compared {
        let Check::Marking { disturbed, seam } = std::mem::replace(&mut self.check, Check::None)
        else {
            return Compared::default();
        };
        // tmux hands its bytes on when it has answered, nearly always before that is heard here.
        let behind = self.tracker.is_behind(&seam.capture);
        let patient = now.saturating_duration_since(self.fed_at) < SURE;
        if disturbed || behind && patient {
            self.try_again(now);
            return Compared::default();
        }
        self.checked_at = now;
        (self.is_unchecked, self.is_retried) = (false, false);
        self.again = AGAIN;
        let difference = self.tracker.difference(&seam.capture);
        let differs = difference.is_some() || self.tracker.differs_above_screen(&seam.capture);
        let parted = std::mem::take(&mut self.parted) || differs;
        let changes = match parted {
            false => {
                self.tracker.confirm(&seam.capture);
                Vec::new()
            }
            true => {
                if let Some(difference) = difference {
                    log::debug!("the bytes of a pane have made something else: {difference:?}");
                }
                let at = self.time(now);
                self.tracker.resync(&seam, at)
            }
        };
        Compared {
            changes,
            seam: Some(*seam),
            parted,
        }
    }

    /// The pane is gone: what its bytes made last is final.
    pub fn end(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.end(self.time(now))
    }

    /// The observer stops and the pane goes on.
    pub fn detach(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.detach(self.time(now))
    }

    /// Goes over to looks.
    pub fn into_polling(self, now: Instant) -> (Tracker, Vec<Change>) {
        let at = self.time(now);
        self.tracker.into_polling(at)
    }

    fn disturb(&mut self, now: Instant) {
        self.fed_at = now;
        self.is_unchecked = true;
        if let Check::Asked { disturbed } | Check::Marking { disturbed, .. } = &mut self.check {
            *disturbed = true;
        }
    }

    fn note(&mut self, changes: &[Change], now: Instant) {
        let next = self.tracker.tracker().next_line();
        let is_restless =
            |change: &Change| matches!(change, Change::Revised { line, .. } if *line < next);
        if changes.iter().any(is_restless) {
            if self.restless_until.is_none() {
                self.tracker.set_settle_period(RESTLESS_SETTLE);
            }
            self.restless_until = Some(now + RESTLESS);
        }
    }

    fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.epoch)
    }
}

/// The bytes cut before each place where a shell says something.
fn at_marks(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let marks = memchr::memmem::find_iter(bytes, SHELL_MARK);
    let mut from = 0;
    let ends = marks.chain([bytes.len()]);
    ends.map(move |end| {
        let part = &bytes[from..end];
        from = end;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_before_what_shells_say() {
        let parts: Vec<&[u8]> = at_marks(b"a\x1b]133;A\x07b\x1b]133;C\x07").collect();
        assert_eq!(parts, [&b"a"[..], b"\x1b]133;A\x07b", b"\x1b]133;C\x07"]);
        assert_eq!(at_marks(b"").collect::<Vec<_>>(), [b""]);
    }
}
