//! Splits bytes into records: lines, or server-sent events with their fields and the blank line that
//! ends an event (pure).

use super::json_lines;
use super::json_lines::{ByteLine, LineEnd, LineSplitter, ROOM_KEPT};

/// A record, or what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseEvent<'a> {
    Data(&'a [u8]),
    /// The data exceeded the limit. The number is its length in bytes.
    TooLong(u64),
    /// `[DONE]`, with which an API announces the end of the stream.
    Done,
    /// A line that is not a field.
    Stray(&'a [u8]),
}

/// The data of the open event.
#[derive(Debug, Default)]
pub struct SseFrames {
    bytes_max: usize,
    data: Vec<u8>,
    has_data: bool,
    skipped: u64,
}

impl SseFrames {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Processes a line without its end.
    pub fn line(&mut self, line: &ByteLine<'_>, take: &mut impl FnMut(SseEvent<'_>)) {
        let line = match line {
            ByteLine::Whole(line) => *line,
            ByteLine::TooLong(bytes) => {
                self.skipped += bytes;
                return;
            }
        };
        let Some(first) = line.first() else {
            return self.dispatch(take);
        };
        match (first, line.strip_prefix(b"data")) {
            // A recording of payloads without fields: no other line of this format begins with a brace.
            (b'{', _) => take(SseEvent::Data(line)),
            (_, Some(rest)) if rest.is_empty() || rest[0] == b':' => {
                let value = rest.strip_prefix(b":").unwrap_or(rest);
                self.data(value.strip_prefix(b" ").unwrap_or(value));
            }
            // The data repeats the name of the event.
            _ if is_field(line) => {}
            _ => take(SseEvent::Stray(line)),
        }
    }

    fn data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        if self.skipped > 0 || self.data.len() + value.len() > self.bytes_max {
            self.skipped += (self.data.len() + value.len()) as u64;
            self.data = Vec::new();
        } else {
            self.data.extend_from_slice(value);
        }
    }

    /// Emits data that lacks only the final blank line, after no bytes have arrived for a while;
    /// returns true if it used the open line.
    pub fn flush_idle(&mut self, open: &[u8], take: &mut impl FnMut(SseEvent<'_>)) -> bool {
        let is_whole = |data: &[u8]| data == b"[DONE]" || json_lines::is_whole(data);
        let value = open.strip_prefix(b"data:").unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let has_value = !self.has_data && is_whole(value);
        if has_value {
            self.data(value);
        }
        if self.skipped == 0 && self.has_data && is_whole(&self.data) {
            self.dispatch(take);
        }
        has_value
    }

    pub fn dispatch(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        let skipped = std::mem::take(&mut self.skipped);
        match self.data.as_slice() {
            _ if skipped > 0 => take(SseEvent::TooLong(skipped)),
            b"[DONE]" => take(SseEvent::Done),
            data if self.has_data => take(SseEvent::Data(data)),
            _ => {}
        }
        self.has_data = false;
        self.data.clear();
        self.data.shrink_to(ROOM_KEPT);
    }
}

/// Splits bytes into records: lines, or the data of server-sent events.
#[derive(Debug)]
pub struct Framing {
    lines: LineSplitter,
    /// `None` if each line is a record.
    frames: Option<SseFrames>,
}

impl Framing {
    /// Creates a framing in which each line is a record.
    pub fn lines(bytes_max: usize) -> Self {
        Self {
            lines: LineSplitter::new(LineEnd::Newline, bytes_max),
            frames: None,
        }
    }

    /// Creates the framing of server-sent events.
    pub fn events(bytes_max: usize) -> Self {
        Self {
            lines: LineSplitter::new(LineEnd::Any, bytes_max),
            frames: Some(SseFrames::new(bytes_max)),
        }
    }

    /// Processes bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(SseEvent<'_>)) {
        let frames = &mut self.frames;
        self.lines
            .push(bytes, |line| take_line(&line, frames, take));
    }

    /// Emits a record that lacks only its end, after no bytes have arrived for a while.
    pub fn flush_idle(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        if json_lines::is_whole(self.lines.open()) {
            let open = self.lines.take_open();
            take_line(&ByteLine::Whole(&open), &mut self.frames, take);
        } else if let Some(frames) = &mut self.frames
            && frames.flush_idle(self.lines.open(), take)
        {
            self.lines.take_open();
        }
    }

    /// Returns true if a record has begun but not ended.
    pub fn is_open(&self) -> bool {
        let frames = self.frames.as_ref();
        frames.is_some_and(|frames| frames.has_data || frames.skipped > 0)
            || self.lines.is_too_long()
            || json_lines::is_begun(self.lines.open())
    }

    /// Ends the stream. The last record needs no end.
    pub fn finish(&mut self, take: &mut impl FnMut(SseEvent<'_>)) {
        let frames = &mut self.frames;
        self.lines.finish(|line| take_line(&line, frames, take));
        if let Some(frames) = frames {
            frames.dispatch(take);
        }
    }
}

fn take_line(
    line: &ByteLine<'_>,
    frames: &mut Option<SseFrames>,
    take: &mut impl FnMut(SseEvent<'_>),
) {
    match (frames, line) {
        (Some(frames), _) => frames.line(line, take),
        (None, ByteLine::Whole(line)) => take(SseEvent::Data(line)),
        (None, ByteLine::TooLong(bytes)) => take(SseEvent::TooLong(*bytes)),
    }
}

/// Returns true if a line is a comment or a known SSE field.
fn is_field(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    matches!(name, b"" | b"event" | b"id" | b"retry")
}

#[cfg(test)]
mod tests {

    use super::*;

    fn events(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut framing = Framing::events(20);
        let mut take = |event: SseEvent<'_>| {
            found.push(match event {
                SseEvent::Data(data) => String::from_utf8_lossy(data).into_owned(),
                SseEvent::TooLong(bytes) => format!("{bytes} skipped"),
                SseEvent::Done => "[DONE]".to_owned(),
                SseEvent::Stray(line) => format!("? {}", String::from_utf8_lossy(line)),
            });
        };
        framing.push(text.as_bytes(), &mut take);
        framing.finish(&mut take);
        found
    }

    #[test]
    fn fields_comments_and_line_ends() {
        let text = ": hello\nevent: x\ndata: a\ndata:b\rdata\r\n\r\nid: 7\n\ndata:  c\n\nwhat\n{\"d\":1}\ndata: e";
        assert_eq!(events(text), ["a\nb\n", " c", "? what", "{\"d\":1}", "e"]);
    }

    #[test]
    fn data_that_is_too_long_is_counted() {
        let text =
            "data: 12345678901234\ndata: 123456\n\ndata: 123456789012345678901\n\ndata: a\n\n";
        assert_eq!(events(text), ["21 skipped", "27 skipped", "a"]);
    }
}
