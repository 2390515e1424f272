//! Splits an agent's output into records, which become events, and other lines, which remain text (pure).

use crate::agent::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};
use crate::timestamp::Timestamp;

pub(crate) enum RecordPart<'a> {
    /// Bytes of lines that are not records.
    Text(&'a [u8]),
    Event(AgentEvent),
    /// Bytes of records in an unknown format.
    Unknown(&'a [u8]),
}

pub(crate) type PartHandler<'a> = &'a mut dyn FnMut(RecordPart<'_>);

/// The kind of a line, by its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Record,
    Text,
}

/// Splits an output into records and text, in order.
///
/// A line is a record if it begins like an object or like a field of server-sent events. While the format is
/// unknown, the output from the first record on is buffered. It is split once the format is known, after 64
/// lines at the latest.
pub(crate) struct RecordSplitter {
    format: Format,
    pub(crate) parser: StreamParser,
    /// The beginning of a line whose kind is not known yet.
    line_start: Vec<u8>,
    open: Option<LineKind>,
    /// The kind of the last line, which an empty line shares.
    last: LineKind,
    /// Everything from the first record on, while the format is unknown.
    buffered: Option<Vec<u8>>,
    events: Vec<AgentEvent>,
    has_output: bool,
    /// The exit status of a program that failed; set before [`RecordSplitter::finish`].
    pub(super) failure: Option<String>,
}

impl RecordSplitter {
    /// Creates a splitter for a format; plain text has no records.
    pub fn new(format: Format) -> Option<Self> {
        (format != Format::Text).then(|| Self {
            format,
            parser: StreamParser::new(format),
            line_start: Vec::new(),
            open: None,
            last: LineKind::Text,
            buffered: None,
            events: Vec::new(),
            has_output: false,
            failure: None,
        })
    }

    /// Adds bytes, which may be split anywhere.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, handle: PartHandler<'_>) {
        self.has_output |= !bytes.is_empty();
        match self.buffered {
            Some(_) => self.buffer(bytes, now, handle),
            None => self.split(bytes, now, handle),
        }
    }

    /// Handles the rest at the end of the output.
    pub fn finish(&mut self, now: Timestamp, handle: PartHandler<'_>) {
        let start = std::mem::take(&mut self.line_start);
        if !start.is_empty() {
            let kind = self.kind_of(&start).unwrap_or(LineKind::Text);
            self.line(kind, &start, now, handle);
        }
        if self.buffered.is_some() {
            self.parser.finish(now, &mut self.events);
            self.replay(now, handle);
        }
        self.parser.finish(now, &mut self.events);
        self.emit_events(handle);
        if self.parser.status() == StreamStatus::Unknown && self.format != Format::Auto {
            let message = format!(
                "the output does not contain the agent's status: is its format {}?",
                self.format
            );
            handle(RecordPart::Event(AgentEvent::Warning {
                context: "agent output".to_owned(),
                message,
            }));
            self.report_cut(handle);
        }
    }

    /// Reports a program that failed or printed nothing and wrote no final record. A program that printed
    /// text and succeeded may have completed its work.
    fn report_cut(&mut self, handle: PartHandler<'_>) {
        let status = match (self.failure.take(), self.has_output) {
            (Some(status), _) => status,
            (None, false) => "it printed nothing".to_owned(),
            (None, true) => return,
        };
        handle(RecordPart::Event(AgentEvent::AgentFailed {
            error: "the run was cut off before its end".to_owned(),
            evidence: format!("{status}, without a record of the outcome"),
        }));
    }

    fn buffer(&mut self, bytes: &[u8], now: Timestamp, handle: PartHandler<'_>) {
        self.buffered
            .get_or_insert_default()
            .extend_from_slice(bytes);
        self.parser.push(bytes, now, &mut self.events);
        if self.parser.format().is_some() {
            self.replay(now, handle);
        }
    }

    /// Splits the buffered output once its format is known.
    fn replay(&mut self, now: Timestamp, handle: PartHandler<'_>) {
        let format = self.parser.format().unwrap_or(StreamFormat::Text);
        self.events.clear();
        self.parser = StreamParser::of(format);
        let buffered = self.buffered.take().unwrap_or_default();
        self.split(&buffered, now, handle);
    }

    fn split(&mut self, mut rest: &[u8], now: Timestamp, handle: PartHandler<'_>) {
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            if let Some(kind) = self.open {
                self.line(kind, &rest[..end], now, handle);
                rest = &rest[end..];
                continue;
            }
            // The kind of most lines is known immediately, without a copy.
            if self.line_start.is_empty()
                && let Some(kind) = self.kind_of(&rest[..end])
            {
                if kind == LineKind::Record && self.parser.format().is_none() {
                    return self.buffer(rest, now, handle);
                }
                self.line(kind, &rest[..end], now, handle);
                rest = &rest[end..];
                continue;
            }
            self.line_start.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
            let start = std::mem::take(&mut self.line_start);
            let kind = match self.kind_of(&start) {
                Some(kind) => kind,
                // A line with more leading blanks or NUL bytes is text. A process that died may leave NUL bytes in its file,
                // at most as many as a file-system block has.
                None if start.ends_with(b"\n") || start.len() > 64 * 1024 => LineKind::Text,
                None => {
                    self.line_start = start;
                    continue;
                }
            };
            self.line(kind, &start, now, handle);
            if self.buffered.is_some() {
                return self.buffer(rest, now, handle);
            }
        }
    }

    fn line(&mut self, kind: LineKind, bytes: &[u8], now: Timestamp, handle: PartHandler<'_>) {
        if kind == LineKind::Record && self.parser.format().is_none() {
            return self.buffer(bytes, now, handle);
        }
        self.last = kind;
        self.open = (!bytes.ends_with(b"\n")).then_some(kind);
        match kind {
            LineKind::Text => handle(RecordPart::Text(bytes)),
            LineKind::Record => {
                self.parser.push(bytes, now, &mut self.events);
                self.emit_events(handle);
                // Records of an unknown agent also remain in the output as text.
                if self.parser.format() == Some(StreamFormat::Json) {
                    handle(RecordPart::Unknown(bytes));
                }
            }
        }
    }

    fn emit_events(&mut self, handle: PartHandler<'_>) {
        for event in self.events.drain(..) {
            handle(RecordPart::Event(event));
        }
    }

    /// Returns the kind of a line that begins with `begin`; `None` if more bytes are needed.
    fn kind_of(&self, begin: &[u8]) -> Option<LineKind> {
        let format = self.parser.format();
        if format == Some(StreamFormat::Text) {
            return Some(LineKind::Text);
        }
        let fields: &[&[u8]] = match format {
            Some(format) if is_sse(format) => &[b"data:", b"event:", b"id:", b"retry:", b":"],
            // Some servers send comments before the first event.
            None if self.format == Format::Sse => &[b"data:", b"event:", b":"],
            // `id: 7` is often text.
            None if self.format.formats().iter().copied().any(is_sse) => {
                &[b"data:", b"event:", b": "]
            }
            _ => &[],
        };
        if fields.iter().any(|field| begin.starts_with(field)) {
            return Some(LineKind::Record);
        }
        let line = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0);
        let mut seen = line.iter().skip_while(|byte| is_blank(byte));
        match seen.next() {
            None => None,
            // An empty line ends a server-sent event.
            Some(b'\n') if format.is_some_and(is_sse) => Some(LineKind::Record),
            Some(b'\n') => Some(self.last),
            // Text may also begin with a brace. In an object, a name follows.
            Some(b'{') => match seen.find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'"' | b'}') => Some(LineKind::Record),
                Some(_) => Some(LineKind::Text),
                None if begin.ends_with(b"\n") => Some(LineKind::Text),
                None => None,
            },
            // An incomplete byte order mark.
            Some(0xef | 0xbb) if line.len() < 3 => None,
            Some(_) => {
                if fields.iter().any(|field| field.starts_with(begin)) {
                    None
                } else {
                    Some(LineKind::Text)
                }
            }
        }
    }
}

fn is_sse(format: StreamFormat) -> bool {
    matches!(
        format,
        StreamFormat::AnthropicSse | StreamFormat::OpenAiChatSse | StreamFormat::OpenAiResponsesSse
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the parts of an output: text as it is, events by their names.
    fn split(format: Format, pieces: &[&[u8]]) -> Vec<String> {
        let mut records = RecordSplitter::new(format).unwrap();
        let (mut found, mut text) = (Vec::new(), Vec::new());
        let now = Timestamp::from_micros(0);
        let mut handle = |part: RecordPart<'_>| match part {
            RecordPart::Text(bytes) | RecordPart::Unknown(bytes) => text.extend_from_slice(bytes),
            RecordPart::Event(event) => {
                if !text.is_empty() {
                    found.push(String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned());
                }
                let name = format!("{event:?}");
                found.push(name.split(' ').next().unwrap_or_default().to_owned());
            }
        };
        for piece in pieces {
            records.push(piece, now, &mut handle);
        }
        records.finish(now, &mut handle);
        if !text.is_empty() {
            found.push(String::from_utf8_lossy(&text).into_owned());
        }
        found
    }

    const TURN: &str = "Warning: no stdin\n{\"type\":\"thread.started\"}\n\n{\"type\":\"turn.started\"}\nbetween {\"a\n{ int x; }\n\0\0{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"hi\"}}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7}}\nbye";

    #[test]
    fn other_lines_stay_text_in_their_place() {
        for format in [Format::Codex, Format::Auto] {
            let found = split(format, &[TURN.as_bytes()]);
            let (first, last) = (found.first().unwrap(), found.last().unwrap());
            // The records in between have no event.
            assert_eq!(first, "Warning: no stdin\nbetween {\"a\n{ int x; }\n");
            assert_eq!(last, "bye", "{found:?}");
            assert!(found.contains(&"TurnCompleted".to_owned()), "{found:?}");
            assert!(found.contains(&"AgentCompleted".to_owned()), "{found:?}");
        }
    }

    #[test]
    fn plain_text_is_unchanged() {
        for text in [
            "plain\n\nlines\n  {\n\"x\n}",
            "data: not an event\nevent: nor this\n\nid: 7\n",
            "{\"broken\n{\"more\n",
            "\u{feff}text",
            "{",
            "",
            "\r50%\r100%\n",
        ] {
            let found = split(Format::Auto, &[text.as_bytes()]);
            assert_eq!(found.concat(), text);
        }
    }

    #[test]
    fn a_stream_that_breaks_off_is_a_failure() {
        let found = split(Format::Auto, &[&TURN.as_bytes()[..70]]);
        assert_eq!(found.last().unwrap(), "AgentFailed", "{found:?}");
    }

    #[test]
    fn a_wrong_format_causes_a_warning() {
        let found = split(Format::Claude, &[b"just text\n"]);
        assert_eq!(found, ["just text\n", "Warning"]);
    }

    #[test]
    fn server_sent_events_are_records() {
        let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ncurl: note\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        let found = split(Format::Auto, &[text.as_bytes()]);
        assert!(found.contains(&"curl: note\n".to_owned()), "{found:?}");
        assert!(found.contains(&"TokenReceived".to_owned()), "{found:?}");
        assert!(
            !found.iter().any(|text| text.contains("data:")),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_the_parts(cuts in prop::collection::vec(0..TURN.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([TURN.len()]) {
                pieces.push(&TURN.as_bytes()[from..cut]);
                from = cut;
            }
            for format in [Format::Auto, Format::Codex] {
                prop_assert_eq!(split(format, &pieces), split(format, &[TURN.as_bytes()]));
            }
        }

        /// No line of the text is an object.
        #[test]
        fn no_byte_of_text_is_lost(text in "[a{:\" \n\r0d]{0,60}") {
            let found = split(Format::Auto, &[text.as_bytes()]);
            let has_records = found.iter().any(|piece| piece == "Warning");
            prop_assert!(has_records || found.concat() == text, "{:?}", found);
        }
    }
}
