//! Several tapes of one pane, one after the other, as one cast (pure).

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoder::{Code, Tape};
use crate::timestamp::Timestamp;

/// What the first line of a tape must say; the rest of it is passed over.
#[derive(Debug, Deserialize)]
struct Header {
    version: u8,
    term: Term,
    #[serde(default)]
    timestamp: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Term {
    cols: u32,
    rows: u32,
}

/// Makes one cast of tapes, a line at a time.
///
/// Time goes on through the pause between two tapes, a marker says where it was, and the size of
/// the next is a resize.
#[derive(Debug)]
pub(crate) struct Splice {
    out: Tape,
    /// When the last event happened, by its tape, in microseconds.
    at: i64,
    size: (u32, u32),
    /// How the last tape ended: an exit that is not the end is a marker.
    exit: Option<String>,
    /// The next event is the first of a tape, which has this size.
    next: Option<(u32, u32)>,
    tapes: u32,
}

impl Splice {
    pub fn new(title: Option<String>, idle_limit: Option<Duration>) -> Self {
        Self {
            out: Tape::new(title, idle_limit),
            at: 0,
            size: (80, 24),
            exit: None,
            next: None,
            tapes: 0,
        }
    }

    /// The first line of the next tape. Whether it is one; else the tape is to be left out.
    pub fn header(&mut self, line: &[u8]) -> bool {
        let Ok(header) = serde_json::from_slice::<Header>(line) else {
            return false;
        };
        if header.version != 3 || header.term.cols == 0 || header.term.rows == 0 {
            return false;
        }
        if let Some(second) = header.timestamp {
            // A clock that was set back takes nothing away: the tape follows at once.
            self.at = self.at.max(second.saturating_mul(1_000_000));
        }
        self.next = Some((header.term.cols, header.term.rows));
        true
    }

    /// Any other line. Whether it is an event, or a comment.
    pub fn line(&mut self, line: &[u8], out: &mut String) -> bool {
        if line.is_empty() || line[0] == b'#' {
            return true;
        }
        let Ok((interval, code, data)) = serde_json::from_slice::<(f64, char, &RawValue)>(line)
        else {
            return false;
        };
        // Exact for all times that a tape can have.
        let micros = (interval * 1e6).round();
        if !(0.0..9e15).contains(&micros) {
            return false;
        }
        self.at = self.at.saturating_add(micros as i64);
        self.out.at(Timestamp::from_micros(self.at));
        self.begin_tape(out);
        match code {
            'o' => self.out.event_json(Code::Output, data.get(), out),
            'm' => self.out.event_json(Code::Marker, data.get(), out),
            'r' => {
                let size = serde_json::from_str::<String>(data.get()).ok();
                if let Some(size) = size.as_deref().and_then(read_size) {
                    self.resize(size, out);
                }
            }
            'x' => self.exit = serde_json::from_str(data.get()).ok(),
            // Input and what a later version may have.
            _ => {}
        }
        true
    }

    /// The end of the last tape.
    pub fn finish(&mut self, out: &mut String) {
        self.begin_tape(out);
        self.out.open(sides(self.size), out);
        if let Some(exit) = self.exit.take() {
            self.out.event(Code::Exit, &exit, out);
        }
    }

    fn begin_tape(&mut self, out: &mut String) {
        let Some(size) = self.next.take() else { return };
        self.tapes += 1;
        if self.tapes == 1 {
            self.size = size;
            self.out.open(sides(size), out);
            return;
        }
        let marker = match self.exit.take() {
            Some(exit) => format!("exited: {exit}; recorded anew from here"),
            None => "the recording was interrupted before this".to_owned(),
        };
        self.out.event(Code::Marker, &marker, out);
        self.resize(size, out);
    }

    fn resize(&mut self, size: (u32, u32), out: &mut String) {
        if self.size != size {
            self.size = size;
            let data = format!("{}x{}", size.0, size.1);
            self.out.event(Code::Resize, &data, out);
        }
    }
}

fn sides((columns, rows): (u32, u32)) -> (usize, usize) {
    (columns as usize, rows as usize)
}

fn read_size(text: &str) -> Option<(u32, u32)> {
    let (columns, rows) = text.split_once('x')?;
    Some((columns.parse().ok()?, rows.parse().ok()?))
}
