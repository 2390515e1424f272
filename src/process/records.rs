//! What an agent prints: its records become events, every other line stays text (pure).

use crate::agent::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};
use crate::timestamp::Timestamp;

/// Beyond so many blanks or NUL bytes a line is text: a process that died has left as many as a
/// block of its file system.
const BEGIN_BYTES_MAX: usize = 64 * 1024;

/// A piece of what was printed.
pub(crate) enum RecordPart<'a> {
    /// Bytes of lines that are no records.
    Text(&'a [u8]),
    /// What a record says.
    Event(AgentEvent),
    /// Bytes of records that nobody knows how to read.
    Unread(&'a [u8]),
}

/// Where pieces go.
pub(crate) type Take<'a> = &'a mut dyn FnMut(RecordPart<'_>);

/// What a line is, as its beginning says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Record,
    Text,
}

/// Sorts an output into records and text, in order.
///
/// A line is a record that begins as an object does, or as a field of server-sent events. While the
/// records do not tell which format they have, everything from the first of them on is held: it is
/// sorted when that is known, at the latest after 64 lines.
pub(crate) struct RecordSplitter {
    format: Format,
    parser: StreamParser,
    /// The beginning of a line that does not tell yet.
    begin: Vec<u8>,
    /// What the open line is, where it has begun.
    open: Option<Kind>,
    /// What the last line was: an empty one belongs to it.
    last: Kind,
    /// What came since the first record, while it is not known how to read it.
    held: Option<Vec<u8>>,
    events: Vec<AgentEvent>,
    /// Anything was printed at all.
    has_output: bool,
    /// How the program ended, where not well.
    bad_end: Option<String>,
}

impl RecordSplitter {
    /// Of an output in this format; of plain text there are none.
    pub fn new(format: Format) -> Option<Self> {
        (format != Format::Text).then(|| Self {
            format,
            parser: StreamParser::new(format),
            begin: Vec::new(),
            open: None,
            last: Kind::Text,
            held: None,
            events: Vec::new(),
            has_output: false,
            bad_end: None,
        })
    }

    /// Takes bytes as they were read, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], now: Timestamp, take: Take<'_>) {
        self.has_output |= !bytes.is_empty();
        match self.held {
            Some(_) => self.hold(bytes, now, take),
            None => self.sort(bytes, now, take),
        }
    }

    /// The program ended in this way, which is not how one does that has done its work. To be told
    /// before the end of its output.
    pub fn ended_badly(&mut self, how: String) {
        self.bad_end = Some(how);
    }

    /// The output has ended.
    pub fn finish(&mut self, now: Timestamp, take: Take<'_>) {
        let begin = std::mem::take(&mut self.begin);
        if !begin.is_empty() {
            let kind = self.kind_of(&begin).unwrap_or(Kind::Text);
            self.line(kind, &begin, now, take);
        }
        if self.held.is_some() {
            self.parser.finish(now, &mut self.events);
            self.choose(now, take);
        }
        self.parser.finish(now, &mut self.events);
        self.hand_on(take);
        if self.parser.status() == StreamStatus::Unknown && self.format != Format::Auto {
            let message = format!(
                "nothing in the output says how the agent stands: is it the format {}?",
                self.format
            );
            take(RecordPart::Event(AgentEvent::Warning {
                context: "agent output".to_owned(),
                message,
            }));
            self.say_cut(take);
        }
    }

    /// A program that was to write records, and ended badly or without a word, has not done its
    /// work. Where it wrote text and ended well, nobody knows.
    fn say_cut(&mut self, take: Take<'_>) {
        let how = match (self.bad_end.take(), self.has_output) {
            (Some(how), _) => how,
            (None, false) => "it printed nothing".to_owned(),
            (None, true) => return,
        };
        take(RecordPart::Event(AgentEvent::AgentFailed {
            error: "the run was cut off before its end".to_owned(),
            evidence: format!("{how}, without a record that says how it went"),
        }));
    }

    /// What is known of the format.
    pub fn format(&self) -> Option<StreamFormat> {
        self.parser.format()
    }

    /// Where the agent stands.
    pub fn standing(&self) -> StreamStatus {
        self.parser.status()
    }

    /// What the agent said last, cut to what a result needs.
    pub fn answer(&self) -> &str {
        self.parser.answer()
    }

    fn hold(&mut self, bytes: &[u8], now: Timestamp, take: Take<'_>) {
        self.held.get_or_insert_default().extend_from_slice(bytes);
        self.parser.push(bytes, now, &mut self.events);
        if self.parser.format().is_some() {
            self.choose(now, take);
        }
    }

    /// The format is known: what was held is read from its beginning, and sorted.
    fn choose(&mut self, now: Timestamp, take: Take<'_>) {
        let format = self.parser.format().unwrap_or(StreamFormat::Text);
        self.events.clear();
        self.parser = StreamParser::of(format);
        let held = self.held.take().unwrap_or_default();
        self.sort(&held, now, take);
    }

    fn sort(&mut self, mut rest: &[u8], now: Timestamp, take: Take<'_>) {
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            if let Some(kind) = self.open {
                self.line(kind, &rest[..end], now, take);
                rest = &rest[end..];
                continue;
            }
            // Most lines tell with what is there, and are not copied.
            if self.begin.is_empty()
                && let Some(kind) = self.kind_of(&rest[..end])
            {
                if kind == Kind::Record && self.parser.format().is_none() {
                    return self.hold(rest, now, take);
                }
                self.line(kind, &rest[..end], now, take);
                rest = &rest[end..];
                continue;
            }
            self.begin.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
            let begin = std::mem::take(&mut self.begin);
            let kind = match self.kind_of(&begin) {
                Some(kind) => kind,
                None if begin.ends_with(b"\n") || begin.len() > BEGIN_BYTES_MAX => Kind::Text,
                None => {
                    self.begin = begin;
                    continue;
                }
            };
            self.line(kind, &begin, now, take);
            if self.held.is_some() {
                return self.hold(rest, now, take);
            }
        }
    }

    /// Hands on a line, or a part of one.
    fn line(&mut self, kind: Kind, bytes: &[u8], now: Timestamp, take: Take<'_>) {
        if kind == Kind::Record && self.parser.format().is_none() {
            return self.hold(bytes, now, take);
        }
        self.last = kind;
        self.open = (!bytes.ends_with(b"\n")).then_some(kind);
        match kind {
            Kind::Text => take(RecordPart::Text(bytes)),
            Kind::Record => {
                self.parser.push(bytes, now, &mut self.events);
                self.hand_on(take);
                // Of records of nobody that is known two words are understood: they are what was
                // printed, like any text.
                if self.parser.format() == Some(StreamFormat::Json) {
                    take(RecordPart::Unread(bytes));
                }
            }
        }
    }

    fn hand_on(&mut self, take: Take<'_>) {
        for event in self.events.drain(..) {
            take(RecordPart::Event(event));
        }
    }

    /// What a line is that begins so; `None` where more of it must be seen.
    fn kind_of(&self, begin: &[u8]) -> Option<Kind> {
        let format = self.parser.format();
        if format == Some(StreamFormat::Text) {
            return Some(Kind::Text);
        }
        let fields: &[&[u8]] = match format {
            Some(format) if is_sse(format) => &[b"data:", b"event:", b"id:", b"retry:", b":"],
            // Some servers send comments for a while before the first event.
            None if self.format == Format::Sse => &[b"data:", b"event:", b":"],
            // `id: 7` is text in many places.
            None if self.format.formats().iter().copied().any(is_sse) => {
                &[b"data:", b"event:", b": "]
            }
            _ => &[],
        };
        if fields.iter().any(|field| begin.starts_with(field)) {
            return Some(Kind::Record);
        }
        let line = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0);
        let mut seen = line.iter().skip_while(|byte| is_blank(byte));
        match seen.next() {
            None => None,
            // It ends an event there.
            Some(b'\n') if format.is_some_and(is_sse) => Some(Kind::Record),
            Some(b'\n') => Some(self.last),
            // Of many texts a line begins with a brace; of an object a name follows.
            Some(b'{') => match seen.find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'"' | b'}') => Some(Kind::Record),
                Some(_) => Some(Kind::Text),
                None if begin.ends_with(b"\n") => Some(Kind::Text),
                None => None,
            },
            // The end of a mark that stands before text.
            Some(0xef | 0xbb) if line.len() < 3 => None,
            Some(_) => match fields.iter().any(|field| field.starts_with(begin)) {
                true => None,
                false => Some(Kind::Text),
            },
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
#[path = "records_tests.rs"]
mod tests;
