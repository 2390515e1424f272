//! From a pane's bytes to events: the tracker of the stream finds the changed lines.

use std::time::{Duration, Instant};

use super::StreamedPane;
use crate::observe::pane_observer::{Follow, Pane};
use crate::observe::pane_output::PaneOutput;
use crate::track::{Change, ShellMark, TerminalNotice};

/// The prefix of a shell's marks (OSC 133).
const SHELL_MARK: &[u8] = b"\x1b]133;";

impl Pane {
    /// Takes bytes, and emits the changes that they make. Returns the shell's marks in them.
    pub fn feed(&mut self, bytes: &[u8], out: &mut PaneOutput<'_>) -> Vec<ShellMark> {
        // A program that has ended prints no more: these are another one's.
        self.respawned(out);
        let Some(stream) = self.stream_mut() else {
            return Vec::new();
        };
        let (changes, marks) = stream.feed(bytes, out.now);
        self.last_news = Some(out.now);
        self.schedule_judging(out.now);
        for changes in changes {
            self.emit_of_stream(changes, out);
        }
        self.take_notices(bytes, out);
        marks
    }

    /// Takes the program's messages to its terminal, other than text.
    fn take_notices(&mut self, bytes: &[u8], out: &PaneOutput<'_>) {
        let mut notices = Vec::new();
        if let Some(stream) = self.stream_mut() {
            stream.notices.push(bytes, &mut notices);
        }
        for notice in notices {
            if let TerminalNotice::Title(title) = &notice {
                self.title.clone_from(title);
            }
            if let Some(states) = &mut self.states {
                states.handle_notice(&notice, out.now);
            }
        }
    }

    pub(in crate::observe::pane_observer) fn emit_of_stream(
        &mut self,
        changes: Vec<Change>,
        out: &mut PaneOutput<'_>,
    ) {
        if changes.is_empty() {
            return;
        }
        if let (Some(turns), Follow::Bytes(stream)) = (&mut self.turns, &self.follow) {
            turns.handle_capture(&stream.capture(), stream.tracker());
            turns.note_output();
        }
        self.emit(changes, out);
    }
}

impl StreamedPane {
    /// Takes bytes. Returns the changes to emit one after the other, and the shell's marks.
    fn feed(&mut self, bytes: &[u8], now: Instant) -> (Vec<Vec<Change>>, Vec<ShellMark>) {
        self.check.bytes_arrived(now);
        if self.redraws_until.is_some_and(|until| until <= now) {
            self.redraws_until = None;
            self.tracker.set_settle_period(Duration::ZERO);
        }
        let at = self.elapsed(now);
        self.tracker.advance_clock(at);
        let (mut changes, mut marks) = (Vec::new(), Vec::new());
        for mut part in split_at_marks(bytes) {
            if part.starts_with(SHELL_MARK) {
                // The lines before the mark settle before it.
                changes.push(self.changes(now));
            }
            while !part.is_empty() {
                let taken = self.tracker.feed(part);
                part = &part[taken..];
                marks.extend(self.tracker.shell_marks());
                changes.push(self.changes(now));
            }
        }
        // The last lines settle at once, unless the longer settle period applies.
        changes.push(self.changes(now));
        (changes, marks)
    }
}

/// Splits bytes before each mark of a shell.
fn split_at_marks(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
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
    fn bytes_are_split_before_shell_marks() {
        let parts: Vec<&[u8]> = split_at_marks(b"a\x1b]133;A\x07b\x1b]133;C\x07").collect();
        assert_eq!(parts, [&b"a"[..], b"\x1b]133;A\x07b", b"\x1b]133;C\x07"]);
        assert_eq!(split_at_marks(b"").collect::<Vec<_>>(), [b""]);
    }
}
