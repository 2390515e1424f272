//! The line format: serializes an envelope as one line of JSON and parses it (pure).

use crate::event::{Envelope, ExecutionId, LineDecoder, SCHEMA, TdEvent};
use crate::timestamp::{Timestamp, TimestampFormatter};

/// The longest line that is written or read, so that a corrupt file cannot exhaust memory. The observer's own
/// events are far smaller; a longer event of an embedder becomes a `LogGap`.
pub(super) const LINE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Writes lines. Caches the text of the current second, which most lines share, and keeps line buffers, so
/// that a batch allocates no memory.
#[derive(Default)]
pub(crate) struct LineWriter {
    stamp: TimestampFormatter,
    buffers: Vec<Vec<u8>>,
}

impl LineWriter {
    /// Returns an empty buffer.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Returns a buffer for reuse.
    pub(super) fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        // Few batches contain more runs with many lines. Larger buffers are freed.
        if self.buffers.len() < 4 && (1..=4 * 1024 * 1024).contains(&buffer.capacity()) {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Appends the envelope as one line. If it cannot be serialized, `out` is unchanged; every event of this
    /// crate can be.
    ///
    /// # Errors
    /// Those of the serializer.
    pub(crate) fn push(
        &mut self,
        out: &mut Vec<u8>,
        envelope: &Envelope,
    ) -> Result<(), serde_json::Error> {
        let start = out.len();
        let written = write_line(&mut self.stamp, out, envelope);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }
}

fn write_line(
    stamp: &mut TimestampFormatter,
    out: &mut Vec<u8>,
    envelope: &Envelope,
) -> Result<(), serde_json::Error> {
    match (envelope.seq, &envelope.extra) {
        (Some(seq), None) => {
            out.extend_from_slice(br#"{"seq":"#);
            serde_json::to_writer(&mut *out, &seq)?;
            out.extend_from_slice(br#","ts":""#);
            stamp.push(out, envelope.ts);
            out.push(b'"');
            if envelope.n != 1 {
                out.extend_from_slice(br#","n":"#);
                serde_json::to_writer(&mut *out, &envelope.n)?;
            }
            out.extend_from_slice(br#","event":"#);
            envelope.event.write_json(out)?;
            out.push(b'}');
        }
        // An envelope from another program, which is rare: serde is slower but sufficient.
        _ => serde_json::to_writer(&mut *out, envelope)?,
    }
    out.push(b'\n');
    Ok(())
}

/// Returns the header line of a file. It is not part of the stream and has the number 0.
pub(crate) fn header(
    execution_id: &ExecutionId,
    ts: Timestamp,
    (host, pid): (&str, u32),
    first_seq: u64,
) -> Envelope {
    let event = TdEvent::LogOpened {
        execution_id: execution_id.clone(),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host.to_owned(),
        pid,
        first_seq,
    };
    Envelope::new(Some(0), ts, event)
}

/// Parses one line, with or without its line feed. Accepts the lines of older logs, and keeps
/// fields and events that this version does not know.
///
/// ```
/// let line = br#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#;
/// assert_eq!(td_observe::internals::history::parse_line(line).unwrap().event.execution_id(), "abc123");
/// ```
///
/// # Errors
/// If the line is not an envelope, for example because it is incomplete.
pub fn parse_line(line: &[u8]) -> Result<Envelope, serde_json::Error> {
    LineDecoder::default().decode(line)
}

/// Returns the number at the start of a line, as the writer writes it.
pub(super) fn seq_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(br#"{"seq":"#)?;
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

/// Returns the timestamp of a line in this crate's format, whose bytes sort by time. `None` for other lines,
/// for years without four digits, and for a leap second, which is parsed as the preceding second.
pub(super) fn stamp_of(line: &[u8]) -> Option<&[u8]> {
    let (ts, rest) = stamped(line)?;
    let shape = b"dddd-dd-ddTdd:dd:dd.ddddddZ";
    let fits = ts.iter().zip(shape).all(|(&byte, &shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    let is_leap = ts.get(17..19) == Some(b"60");
    (fits && !is_leap && rest.starts_with(b"\"")).then_some(ts)
}

/// Returns the bytes of a timestamp of the usual length in a line of this crate's format, and those that follow.
fn stamped(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(br#"{"seq":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let rest = rest.get(digits..)?.strip_prefix(br#","ts":""#)?;
    rest.split_at_checked("2026-01-21T10:00:01.123456Z".len())
}

/// Returns what follows the time in a line of this crate's format.
pub(super) fn after_stamp(line: &[u8]) -> Option<&[u8]> {
    stamped(line).map(|(_, rest)| rest)
}

/// Returns the type of the event in a line of this crate's format; `None` for other lines, and for a type with an escape.
pub(super) fn type_of(line: &[u8]) -> Option<&[u8]> {
    let (_, rest) = stamped(line)?;
    let rest = rest.strip_prefix(br#"","event":{"type":""#)?;
    let name = &rest[..rest.iter().position(|byte| *byte == b'"')?];
    (!name.contains(&b'\\')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LogGapRange;

    fn line_of(envelope: &Envelope) -> String {
        let mut out = Vec::new();
        LineWriter::default().push(&mut out, envelope).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_equals_the_output_of_serde() {
        for line in [
            r#"{"seq":42,"ts":"2026-01-21T10:00:01.123456Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#,
            r#"{"seq":7,"ts":"2026-01-21T10:00:01.000000Z","n":3,"event":{"type":"TokenReceived","execution_id":"a\"b","iteration":1,"token":"x\n\u0000"}}"#,
            r#"{"seq":8,"ts":"2026-01-21T10:00:01.000000Z","event":{"type":"FromTheFuture","execution_id":"a","what":[1,{"x":null}]}}"#,
            r#"{"seq":9,"ts":"2026-01-21T10:00:01.000000Z","event":{"type":"IterationStarted","execution_id":"a","iteration":1,"mood":"good"},"trace":"t-1"}"#,
        ] {
            let envelope = parse_line(line.as_bytes()).unwrap();
            assert_eq!(line_of(&envelope), format!("{line}\n"));
            assert_eq!(
                line_of(&envelope).trim_end(),
                serde_json::to_string(&envelope).unwrap()
            );
        }
    }

    #[test]
    fn lines_of_the_seed_are_parsed() {
        let line = br#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}"#;
        let envelope = parse_line(line).unwrap();
        assert_eq!(envelope.seq, None);
        assert!(matches!(&envelope.event,
            TdEvent::LoopStarted { task_description, .. } if task_description == "Add auth"));
        assert_eq!(LogGapRange::of(&envelope), None);
    }
}
