//! The format asciicast v3: a header, then one event a line, each with the time since the one
//! before (pure).

use std::fmt::Write;
use std::time::Duration;

use crate::timestamp::Timestamp;

/// What is held back while the size for the header is not known: some hundred markers.
#[cfg(feature = "cli")]
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Output,
    Resize,
    Marker,
    Exit,
}

impl Code {
    /// As the format writes it.
    pub fn letter(self) -> char {
        match self {
            Self::Output => 'o',
            Self::Resize => 'r',
            Self::Marker => 'm',
            Self::Exit => 'x',
        }
    }
}

/// Writes a cast.
#[derive(Debug)]
pub(crate) struct Tape {
    title: Option<String>,
    idle_limit_micros: Option<u64>,
    /// When it began.
    begin: Option<Timestamp>,
    /// The time of the last envelope, as its clock said.
    clock: Option<Timestamp>,
    /// Time since the beginning, and how much of it is written. A clock that goes back takes
    /// nothing away.
    elapsed_micros: u64,
    written_micros: u64,
    /// Events before the header; `None` when that is written.
    pending: Option<String>,
    /// Used again from event to event.
    json: String,
}

impl Tape {
    pub fn new(title: Option<String>, idle_limit: Option<Duration>) -> Self {
        let micros = |limit: Duration| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Self {
            title,
            idle_limit_micros: idle_limit.map(micros),
            begin: None,
            clock: None,
            elapsed_micros: 0,
            written_micros: 0,
            pending: Some(String::new()),
            json: String::new(),
        }
    }

    /// What follows happened then.
    pub fn at(&mut self, ts: Timestamp) {
        self.begin.get_or_insert(ts);
        let before = self.clock.replace(ts).unwrap_or(ts);
        let step = ts.micros().saturating_sub(before.micros());
        let step = u64::try_from(step).unwrap_or(0);
        self.elapsed_micros = self.elapsed_micros.saturating_add(step);
    }

    /// Whether the header is written.
    pub fn is_open(&self) -> bool {
        self.pending.is_none()
    }

    /// Whether the header should not wait any longer.
    #[cfg(feature = "cli")]
    pub fn is_full(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.len() > PENDING_BYTES_MAX)
    }

    /// Writes the header, once.
    pub fn open(&mut self, (columns, rows): (usize, usize), out: &mut String) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        // Writing to a string does not fail, here and below.
        let _ = write!(
            out,
            r#"{{"version":3,"term":{{"cols":{columns},"rows":{rows}}}"#
        );
        let second = self.begin.map(|begin| begin.micros().div_euclid(1_000_000));
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

    /// Whether time has passed since the last event.
    pub fn is_behind(&self) -> bool {
        self.elapsed_micros > self.written_micros
    }

    /// Writes an event.
    pub fn event(&mut self, code: Code, data: &str, out: &mut String) {
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        push_string(data, &mut json);
        self.event_json(code, &json, out);
        self.json = json;
    }

    /// Writes an event whose data are JSON already.
    pub fn event_json(&mut self, code: Code, json: &str, out: &mut String) {
        let interval = self.elapsed_micros - self.written_micros;
        let interval = interval.min(self.idle_limit_micros.unwrap_or(u64::MAX));
        self.written_micros = self.elapsed_micros;
        let out = self.pending.as_mut().unwrap_or(out);
        let code = code.letter();
        let (seconds, micros) = (interval / 1_000_000, interval % 1_000_000);
        let _ = writeln!(out, r#"[{seconds}.{micros:06},"{code}",{json}]"#);
    }
}

/// A JSON string; nothing in it orders a terminal that the file is printed on.
fn push_string(text: &str, out: &mut String) {
    // Text can always be written.
    let json = serde_json::to_string(text).unwrap_or_else(|_| r#""""#.to_owned());
    let mut rest = json.as_str();
    // serde_json leaves those behind ASCII's others as they are: all but DEL begin with this byte.
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
