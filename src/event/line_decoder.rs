//! Decodes lines of a log: lines in this crate's own format directly, all others by serde (pure).

use super::envelope::Envelope;
use super::scan::{Scan, ScanMemory};
use super::td_event::TdEvent;
use crate::timestamp::TimestampParser;

/// Decodes lines with the same results as serde, and shares ids with earlier lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineDecoder {
    memory: ScanMemory,
    stamps: TimestampParser,
}

impl LineDecoder {
    /// Decodes a line, with or without its line feed.
    ///
    /// # Errors
    /// The error of serde, if the line is not an envelope.
    #[inline]
    pub(crate) fn decode(&mut self, line: &[u8]) -> Result<Envelope, serde_json::Error> {
        match simdutf8::basic::from_utf8(line) {
            Ok(text) => self.decode_text(text),
            Err(_) => serde_json::from_slice(line.trim_ascii_end()),
        }
    }

    /// Decodes a line that is known to be UTF-8.
    ///
    /// # Errors
    /// The same as [`LineDecoder::decode`].
    #[inline]
    pub(crate) fn decode_text(&mut self, line: &str) -> Result<Envelope, serde_json::Error> {
        let line = line.trim_ascii_end();
        match self.scan(line) {
            Some(envelope) => Ok(envelope),
            None => serde_json::from_str(line),
        }
    }

    /// Returns the envelope if the line has the format in which this crate writes it.
    #[inline]
    fn scan(&mut self, line: &str) -> Option<Envelope> {
        let mut scan = Scan::new(line, &mut self.memory);
        scan.skip(r#"{"seq":"#)?;
        let seq = scan.number()?;
        scan.skip(r#","ts":"#)?;
        let ts = self.stamps.parse(scan.plain_text()?)?;
        let n = match scan.skip(r#","n":"#) {
            Some(()) => scan.number()?,
            None => 1,
        };
        scan.skip(r#","event":{"type":"#)?;
        let type_name = scan.plain_text()?;
        let event = TdEvent::scan(type_name, &mut scan)?;
        scan.skip("}}")?;
        scan.end()?;
        Some(Envelope {
            seq: Some(seq),
            ts,
            n,
            event,
            extra: None,
        })
    }
}

#[cfg(test)]
mod tests;
