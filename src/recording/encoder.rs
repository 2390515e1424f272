//! Encodes asciicast v3: a header, then one event per line with the time since the previous one
//! (pure).

use std::fmt::{Display, Write};
use std::time::Duration;

use crate::timestamp::Timestamp;

/// The most text held back while the size for the header is unknown: some hundred markers.
#[cfg(feature = "cli")]
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// The type of an event, as the letter of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventCode {
    Output = b'o',
    Resize = b'r',
    Marker = b'm',
    Exit = b'x',
}

/// Encodes one recording, event by event.
#[derive(Debug)]
pub(crate) struct Encoder {
    title: Option<String>,
    idle_limit_micros: Option<u64>,
    begin: Option<Timestamp>,
    /// The time of the last [`advance_to`](Self::advance_to).
    now: Option<Timestamp>,
    /// Time since the beginning, and the part of it that is written. A clock that is set back
    /// subtracts nothing.
    elapsed_micros: u64,
    written_micros: u64,
    /// Events that precede the header; `None` once the header is written.
    pending: Option<String>,
    /// A buffer, reused by each event.
    json: String,
}

impl Encoder {
    pub fn new(title: Option<String>, idle_limit: Option<Duration>) -> Self {
        let micros = |limit: Duration| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Self {
            title,
            idle_limit_micros: idle_limit.map(micros),
            begin: None,
            now: None,
            elapsed_micros: 0,
            written_micros: 0,
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

    /// Returns `true` if the header is written.
    pub fn has_header(&self) -> bool {
        self.pending.is_none()
    }

    /// Returns `true` if too many events wait for the header.
    #[cfg(feature = "cli")]
    pub fn needs_header(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.len() > PENDING_BYTES_MAX)
    }

    /// Writes the header, once.
    pub fn write_header(
        &mut self,
        (columns, rows): (impl Display, impl Display),
        out: &mut String,
    ) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        // Writing to a string does not fail, here and below.
        let _ = write!(
            out,
            r#"{{"version":3,"term":{{"cols":{columns},"rows":{rows}}}"#
        );
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

    /// Returns `true` if time has passed since the last event.
    pub fn has_unwritten_time(&self) -> bool {
        self.elapsed_micros > self.written_micros
    }

    /// Writes an event.
    pub fn event(&mut self, code: EventCode, data: &str, out: &mut String) {
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        push_string(data, &mut json);
        self.event_json(code, &json, out);
        self.json = json;
    }

    /// Writes an event whose data are JSON already.
    pub fn event_json(&mut self, code: EventCode, json: &str, out: &mut String) {
        let interval = self.elapsed_micros - self.written_micros;
        let interval = interval.min(self.idle_limit_micros.unwrap_or(u64::MAX));
        self.written_micros = self.elapsed_micros;
        let out = self.pending.as_mut().unwrap_or(out);
        let code = char::from(code as u8);
        let (seconds, micros) = (interval / 1_000_000, interval % 1_000_000);
        let _ = writeln!(out, r#"[{seconds}.{micros:06},"{code}",{json}]"#);
    }
}

/// Writes a JSON string without any control character, so that printing the file on a terminal is
/// harmless.
fn push_string(text: &str, out: &mut String) {
    // A string can always be serialized.
    let json = serde_json::to_string(text).unwrap_or_else(|_| r#""""#.to_owned());
    let mut rest = json.as_str();
    // serde_json does not escape DEL and the C1 controls: all C1 controls begin with the byte 0xc2.
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
