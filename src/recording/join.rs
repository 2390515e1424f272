//! Joins several recordings of one pane into one (pure).

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoder::{CastVersion, Encoder, EventCode, TerminalSize};
use crate::timestamp::Timestamp;

/// The fields of a recording's first line that joining needs; other fields are ignored.
#[derive(Debug, Deserialize)]
struct RecordingHeader {
    version: u8,
    term: HeaderSize,
    #[serde(default)]
    timestamp: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct HeaderSize {
    cols: u32,
    rows: u32,
}

/// Joins recordings, line by line.
///
/// Time continues through the pause between two recordings. A marker shows where the pause was, and
/// a resize event sets the size of the next recording.
#[derive(Debug)]
pub(crate) struct RecordingJoiner {
    encoder: Encoder,
    /// The time of the last event in its own recording, in microseconds.
    now_micros: i64,
    /// The exit status in the current recording. An exit becomes a marker if another recording
    /// follows.
    exit: Option<String>,
    /// The size of a recording whose first event is still to come.
    next_size: Option<TerminalSize>,
}

impl RecordingJoiner {
    pub fn new(title: Option<String>, idle_limit: Option<Duration>) -> Self {
        Self {
            encoder: Encoder::new(title, idle_limit),
            now_micros: 0,
            exit: None,
            next_size: None,
        }
    }

    /// Sets the version of the joined recording.
    pub fn version(mut self, version: CastVersion) -> Self {
        self.encoder.version = version;
        self
    }

    /// Takes the first line of the next recording. Returns `false` if it is not a header; the
    /// caller then skips the file.
    pub fn header(&mut self, line: &[u8]) -> bool {
        let Ok(header) = serde_json::from_slice::<RecordingHeader>(line) else {
            return false;
        };
        if header.version != 3 || header.term.cols == 0 || header.term.rows == 0 {
            return false;
        }
        if let Some(second) = header.timestamp {
            // After a clock was set back, the recording follows without a pause.
            self.now_micros = self.now_micros.max(second.saturating_mul(1_000_000));
        }
        self.next_size = Some((header.term.cols, header.term.rows));
        true
    }

    /// Takes any other line. Returns `false` if it is neither an event nor a comment.
    pub fn line(&mut self, line: &[u8], out: &mut String) -> bool {
        if line.is_empty() || line[0] == b'#' {
            return true;
        }
        let Ok((interval, code, data)) = serde_json::from_slice::<(f64, char, &RawValue)>(line)
        else {
            return false;
        };
        // A double is exact for every time that a recording can have.
        let micros = (interval * 1e6).round();
        if !(0.0..9e15).contains(&micros) {
            return false;
        }
        self.now_micros = self.now_micros.saturating_add(micros as i64);
        self.encoder
            .advance_to(Timestamp::from_micros(self.now_micros));
        self.begin_recording(out);
        match code {
            'o' => self.encoder.event_json(EventCode::Output, data.get(), out),
            'm' => self.encoder.event_json(EventCode::Marker, data.get(), out),
            'r' => {
                let size = serde_json::from_str::<String>(data.get()).ok();
                if let Some((columns, rows)) = size.as_deref().and_then(|size| size.split_once('x'))
                    && let (Ok(columns), Ok(rows)) = (columns.parse(), rows.parse())
                {
                    self.encoder.resize((columns, rows), out);
                }
            }
            'x' => self.exit = serde_json::from_str(data.get()).ok(),
            // Input, and codes of later versions.
            _ => {}
        }
        true
    }

    /// Ends the joined recording.
    pub fn finish(&mut self, out: &mut String) {
        self.begin_recording(out);
        self.encoder.write_header(out);
        if let Some(exit) = self.exit.take() {
            self.encoder.event(EventCode::Exit, &exit, out);
        }
    }

    fn begin_recording(&mut self, out: &mut String) {
        let Some(size) = self.next_size.take() else {
            return;
        };
        if self.encoder.has_header() {
            let marker = match self.exit.take() {
                Some(exit) => format!("exited: {exit}; recorded anew from here"),
                None => "the recording was interrupted before this".to_owned(),
            };
            self.encoder.event(EventCode::Marker, &marker, out);
        }
        self.encoder.resize(size, out);
    }
}
