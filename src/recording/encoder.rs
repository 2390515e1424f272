//! Encodes asciicast v3, and v2 for export: a header, then one event per line with the time since the previous
//! one, in v2 since the beginning (pure).

use std::fmt::Write;
use std::time::Duration;

use crate::timestamp::Timestamp;

/// The most text held back while the size for the header is unknown: some hundred markers.
#[cfg(feature = "cli")]
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// The largest width or height of a pane in tmux; readers of the format accept at most 65,535.
const SIDE_MAX: u32 = 10_000;

/// Columns and rows of a terminal.
pub(crate) type TerminalSize = (u32, u32);

/// The type of an event, as the letter of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventCode {
    Output = b'o',
    Resize = b'r',
    Marker = b'm',
    Exit = b'x',
}

/// The version of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CastVersion {
    /// Times count from the beginning, and an exit is no event.
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "only an export has it")
    )]
    V2,
    #[default]
    V3,
}

/// Encodes one recording, event by event.
#[derive(Debug)]
pub(crate) struct Encoder {
    title: Option<String>,
    pub version: CastVersion,
    /// The size for the header, or the present one.
    pub size: TerminalSize,
    idle_limit_micros: u64,
    begin: Option<Timestamp>,
    /// The time of the last [`advance_to`](Self::advance_to).
    now: Option<Timestamp>,
    /// Time since the beginning, and the part of it that is written. A clock that is set back
    /// subtracts nothing.
    elapsed_micros: u64,
    written_micros: u64,
    /// The sum of the written intervals, which the idle limit shortens.
    shown_micros: u64,
    /// Events that precede the header; `None` once the header is written.
    pending: Option<String>,
    /// A buffer, reused by each event.
    json: String,
}

impl Encoder {
    pub fn new(title: Option<String>, idle_limit: Option<Duration>) -> Self {
        let micros = idle_limit.and_then(|limit| u64::try_from(limit.as_micros()).ok());
        Self {
            title,
            version: CastVersion::default(),
            size: (80, 24),
            idle_limit_micros: micros.unwrap_or(u64::MAX),
            begin: None,
            now: None,
            elapsed_micros: 0,
            written_micros: 0,
            shown_micros: 0,
            pending: Some(String::new()),
            json: String::new(),
        }
    }

    /// Sets the time of the events that follow.
    pub fn advance_to(&mut self, ts: Timestamp) {
        self.begin.get_or_insert(ts);
        let before = self.now.replace(ts).unwrap_or(ts);
        let step = ts.micros().saturating_sub(before.micros());
        let step = u64::try_from(step).unwrap_or(0);
        self.elapsed_micros = self.elapsed_micros.saturating_add(step);
    }

    pub fn has_header(&self) -> bool {
        self.pending.is_none()
    }

    #[cfg(feature = "cli")]
    pub fn needs_header(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.len() > PENDING_BYTES_MAX)
    }

    /// Sets the size: in the header, or in an event after it.
    pub fn resize(&mut self, size: TerminalSize, out: &mut String) {
        let size = clamped(size);
        let is_event = self.has_header() && self.size != size;
        self.size = size;
        self.write_header(out);
        if is_event {
            let text = format!("{}x{}", size.0, size.1);
            self.event(EventCode::Resize, &text, out);
        }
    }

    /// Writes the header, once.
    pub fn write_header(&mut self, out: &mut String) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let (columns, rows) = self.size;
        // Writing to a string does not fail, here and below.
        let _ = match self.version {
            CastVersion::V2 => write!(out, r#"{{"version":2,"width":{columns},"height":{rows}"#),
            CastVersion::V3 => write!(
                out,
                r#"{{"version":3,"term":{{"cols":{columns},"rows":{rows}}}"#
            ),
        };
        let second = self.begin.map(|begin| begin.seconds());
        // The format has no time before 1970.
        if let Some(second @ 0..) = second {
            let _ = write!(out, r#","timestamp":{second}"#);
        }
        if let Some(title) = &self.title {
            out.push_str(r#","title":"#);
            push_string(title, out);
        }
        out.push_str("}\n");
        out.push_str(&pending);
    }

    pub fn has_unwritten_time(&self) -> bool {
        self.elapsed_micros > self.written_micros
    }

    /// Writes an event.
    pub fn event(&mut self, code: EventCode, data: &str, out: &mut String) {
        let (code, data) = match (self.version, code) {
            // An empty output extends the recording to the exit.
            (CastVersion::V2, EventCode::Exit) => (EventCode::Output, ""),
            _ => (code, data),
        };
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        push_string(data, &mut json);
        self.event_json(code, &json, out);
        self.json = json;
    }

    /// Writes an event whose data are JSON already.
    pub fn event_json(&mut self, code: EventCode, json: &str, out: &mut String) {
        let interval = self.elapsed_micros - self.written_micros;
        let interval = interval.min(self.idle_limit_micros);
        self.written_micros = self.elapsed_micros;
        self.shown_micros = self.shown_micros.saturating_add(interval);
        let time = match self.version {
            CastVersion::V2 => self.shown_micros,
            CastVersion::V3 => interval,
        };
        let out = self.pending.as_mut().unwrap_or(out);
        let code = char::from(code as u8);
        let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
        let _ = writeln!(out, r#"[{seconds}.{micros:06},"{code}",{json}]"#);
    }
}

/// Returns a size that tmux and the readers of the format accept.
pub(super) fn clamped((columns, rows): TerminalSize) -> TerminalSize {
    (columns.clamp(1, SIDE_MAX), rows.clamp(1, SIDE_MAX))
}

/// Writes a JSON string without any control character, so that printing the file on a terminal is
/// harmless.
fn push_string(text: &str, out: &mut String) {
    // A string can always be serialized.
    let json = serde_json::to_string(text).unwrap_or_else(|_| r#""""#.to_owned());
    push_escaped(&json, out);
}

/// Appends JSON with DEL and the C1 controls escaped. JSON allows them in strings, but terminals interpret some of
/// them.
pub(crate) fn push_escaped(json: &str, out: &mut String) {
    let mut rest = json;
    // All C1 controls begin with the byte 0xc2.
    while let Some(at) = memchr::memchr2(0x7f, 0xc2, rest.as_bytes()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mut chars = from.chars();
        match chars.next() {
            Some(c @ '\u{7f}'..='\u{9f}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            Some(c) => out.push(c),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    mod encoder {
        //! Tests of the pane encoder and the joiner: the result does not depend on the cuts, and times add up.

        #[cfg(feature = "cli")]
        use crate::recording::RecordingJoiner;
        use crate::recording::pane_encoder::{BURST_MICROS, MissingOutput, PaneEncoder};
        use crate::recording::strict_reader::read;
        use crate::redact::Rules;
        use crate::timestamp::Timestamp;
        use proptest::prelude::*;

        fn output(events: &[(u64, char, String)]) -> String {
            let output = events.iter().filter(|(_, code, _)| *code == 'o');
            output.map(|(.., data)| data.as_str()).collect()
        }

        const BEGIN: i64 = 1_700_000_000_250_000;

        fn at(micros: i64) -> Timestamp {
            Timestamp::from_micros(BEGIN + micros)
        }

        fn encoder() -> PaneEncoder {
            PaneEncoder::new(Some("job %3".to_owned()), Rules::none())
        }

        #[test]
        fn every_input_is_recorded() {
            let (mut encoder, mut out) = (encoder(), String::new());
            encoder.begin((80, 24), b"\x1b[Hhello", at(0), &mut out);
            encoder.bytes(b"one\r\n", at(1000), &mut out);
            encoder.bytes(b"two \xe6\x97", at(1000 + BURST_MICROS - 1), &mut out);
            // Another burst, which begins with the rest of a character.
            encoder.bytes(b"\xa5\r\n", at(1000 + BURST_MICROS), &mut out);
            encoder.resized((80, 24), at(30_000), &mut out);
            encoder.resized((100, 30), at(40_000), &mut out);
            encoder.bytes(b"\xf0\x9f", at(50_000), &mut out);
            let missing = MissingOutput {
                bytes: 7000,
                line_ends: 3,
            };
            encoder.missing(missing, at(60_000), &mut out);
            // A clock that is set back subtracts nothing.
            encoder.bytes(b"x", at(10_000), &mut out);
            encoder.ended(Some(3), at(70_000), &mut out);
            let (header, events) = read(&out);
            assert_eq!((header.term.cols, header.term.rows), (80, 24));
            assert_eq!(header.timestamp, Some(1_700_000_000));
            assert_eq!(header.title.as_deref(), Some("job %3"));
            let expected = [
                (250_000, 'o', "\x1b[Hhello"),
                (1000, 'o', "one\r\ntwo "),
                (16_000, 'o', "\u{65e5}\r\n"),
                (23_000, 'r', "100x30"),
                (10_000, 'o', "\u{fffd}"),
                (
                    10_000,
                    'm',
                    "7000 bytes are missing here, 3 line ends among them",
                ),
                (0, 'o', "x"),
                (60_000, 'x', "3"),
            ];
            let expected = expected.map(|(micros, code, data)| (micros, code, data.to_owned()));
            assert_eq!(events, expected);
        }

        #[test]
        fn a_flood_becomes_few_events_of_limited_length() {
            let (mut encoder, mut out) = (encoder(), String::new());
            encoder.begin((80, 24), b"", at(0), &mut out);
            for line in 0..200_000 {
                encoder.bytes(b"a line that is not long\r\n", at(line), &mut out);
            }
            encoder.bytes(&vec![b'x'; 1 << 20], at(200_000), &mut out);
            encoder.finish(&mut out);
            let (_, events) = read(&out);
            assert!(events.len() < 200, "{}", events.len());
            assert!(events.iter().all(|(.., data)| data.len() <= 66 * 1024));
            assert_eq!(output(&events).len(), 200_000 * 25 + (1 << 20));
            let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
            assert_eq!(sum, 250_000 + 200_000);
        }

        #[cfg(feature = "cli")]
        #[test]
        fn recordings_are_joined() {
            let mut recordings = Vec::new();
            for (begin, size, status) in [
                (0, (80, 24), None),
                (10_000_000, (80, 24), Some(1)),
                (90_000_000, (90, 20), Some(2)),
            ] {
                let (mut encoder, mut out) = (encoder(), String::new());
                encoder.begin(size, b"screen", at(begin), &mut out);
                encoder.bytes(b"\xff\xc3\xa9\"\x1b", at(begin + 1_000_001), &mut out);
                encoder.ended(status, at(begin + 2_000_000), &mut out);
                recordings.push(out);
            }
            // A truncated recording, and a file that is none.
            recordings.push(
        "{\"version\":3,\"term\":{\"cols\":5,\"rows\":5}}\n# a comment\n[1.5,\"o\",\"a\"]\n[2,\"o"
            .to_owned(),
    );
            recordings.push("nothing\n".to_owned());
            let mut joiner = RecordingJoiner::new(Some("job".to_owned()), None);
            let (mut out, mut bad) = (String::new(), 0);
            for recording in &recordings {
                let mut lines = recording.lines();
                if !joiner.header(lines.next().unwrap().as_bytes()) {
                    bad += 1;
                    continue;
                }
                bad += lines
                    .filter(|line| !joiner.line(line.as_bytes(), &mut out))
                    .count();
            }
            joiner.finish(&mut out);
            assert_eq!(bad, 2);
            let (header, events) = read(&out);
            assert_eq!(
                (header.timestamp, header.title.as_deref()),
                (Some(1_700_000_000), Some("job"))
            );
            let text = "\u{fffd}\u{e9}\"\x1b";
            let expected = [
                (0, 'o', "screen"),
                (1_000_001, 'o', text),
                (999_999, 'o', ""),
                (8_000_000, 'm', "the recording was interrupted before this"),
                (0, 'o', "screen"),
                (1_000_001, 'o', text),
                (78_999_999, 'm', "exited: 1; recorded anew from here"),
                (0, 'r', "90x20"),
                (0, 'o', "screen"),
                (1_000_001, 'o', text),
                (2_499_999, 'm', "exited: 2; recorded anew from here"),
                (0, 'r', "5x5"),
                (0, 'o', "a"),
            ];
            let expected = expected.map(|(micros, code, data)| (micros, code, data.to_owned()));
            assert_eq!(events, expected);
            // Joining nothing gives an empty recording.
            let (mut joiner, mut out) = (RecordingJoiner::new(None, None), String::new());
            joiner.finish(&mut out);
            assert_eq!(read(&out).1, []);
        }

        proptest! {
            /// The cuts and times of the bytes do not change the text, and the intervals add up to the time
            /// from the whole second of the beginning to the end.
            #[test]
            fn any_cuts_give_the_same_text(
                bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xbf_u8, 0xc2..=0xf4_u8, Just(b'\x1b')], 0..300),
                cuts in proptest::collection::vec((0..300_usize, 0..40_000_i64), 0..20),
                end in 0..100_000_i64,
            ) {
                let (mut encoder, mut out) = (encoder(), String::new());
                encoder.begin((80, 24), b"", at(0), &mut out);
                let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(bytes.len()), wait)).collect();
                cuts.push((bytes.len(), 0));
                cuts.sort_unstable();
                let (mut from, mut now) = (0, 0);
                for (cut, wait) in cuts {
                    encoder.bytes(&bytes[from..cut], at(now), &mut out);
                    if wait % 3 == 0 {
                        encoder.flush_due(at(now + wait), &mut out);
                    }
                    (from, now) = (cut, now + wait);
                }
                encoder.ended(None, at(now + end), &mut out);
                let (_, events) = read(&out);
                prop_assert_eq!(output(&events), String::from_utf8_lossy(&bytes));
                let sum: u64 = events.iter().map(|(interval, ..)| interval).sum();
                prop_assert_eq!(sum, 250_000 + (now + end) as u64);
            }

            /// A key that arrives in pieces, with colours in it, is redacted.
            #[test]
            fn a_key_in_pieces_is_redacted(cuts in proptest::collection::vec((0..60_usize, 0..30_000_i64), 0..8)) {
                let key = format!("gh{}_{}", "p", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6");
                let text = format!("token {}\x1b[32m{} end\r\n", &key[..17], &key[17..]);
                let (mut encoder, mut out) = (PaneEncoder::new(None, Rules::builtin()), String::new());
                let mut cuts: Vec<(usize, i64)> = cuts.into_iter().map(|(cut, wait)| (cut.min(text.len()), wait)).collect();
                cuts.push((text.len(), 0));
                cuts.sort_unstable();
                let (mut from, mut now) = (0, 0);
                for (cut, wait) in cuts {
                    encoder.bytes(&text.as_bytes()[from..cut], at(now), &mut out);
                    (from, now) = (cut, now + wait);
                }
                encoder.finish(&mut out);
                let shown = output(&read(&out).1).replace("\x1b[32m", "");
                for part in key.as_bytes().windows(12) {
                    prop_assert!(!shown.contains(std::str::from_utf8(part).unwrap()), "{:?}", shown);
                }
                prop_assert!(shown.ends_with(" end\r\n"), "{:?}", shown);
            }
        }
    }
}
