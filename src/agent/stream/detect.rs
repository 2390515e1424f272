//! Detects the format of a stream from its first records (pure).

use super::format::StreamFormat;
use super::lenient::Maybe;
use super::lines::{ByteLine, LineEnd, LineSplitter};
use super::probe::FormatProbe;
use super::sse::{SseEvent, SseFrames};
use super::values;

/// The number of lines after which the format is guessed if no record has shown it.
const LINES_MAX: usize = 64;

/// Reads the beginning of a stream until its format is known.
#[derive(Debug)]
pub(super) struct FormatDetector {
    /// The bytes so far, which the reader of the format will process.
    pending: Vec<u8>,
    bytes_max: usize,
    lines: LineSplitter,
    frames: SseFrames,
    evidence: FormatEvidence,
}

/// Counts of features, for guessing the format if no record shows it.
#[derive(Debug, Default)]
struct FormatEvidence {
    candidates: &'static [StreamFormat],
    format: Option<StreamFormat>,
    lines: usize,
    bytes: usize,
    objects: usize,
    others: usize,
}

impl FormatDetector {
    pub fn new(candidates: &'static [StreamFormat], bytes_max: usize) -> Self {
        Self {
            pending: Vec::new(),
            bytes_max,
            lines: LineSplitter::new(LineEnd::Any, bytes_max),
            frames: SseFrames::new(bytes_max),
            evidence: FormatEvidence {
                candidates,
                ..FormatEvidence::default()
            },
        }
    }

    /// Processes bytes; returns the format once it is known.
    pub fn push(&mut self, bytes: &[u8]) -> Option<StreamFormat> {
        self.pending.extend_from_slice(bytes);
        let (frames, evidence) = (&mut self.frames, &mut self.evidence);
        self.lines.push(bytes, |line| {
            evidence.add_line(&line, frames, self.bytes_max)
        });
        if self.lines.is_too_long() {
            // No known format has such long records.
            self.evidence.guess();
        }
        self.evidence.format
    }

    /// Returns the format if an unterminated line shows it.
    pub fn flush_idle(&mut self) -> Option<StreamFormat> {
        let open = self.lines.open();
        if self.evidence.format.is_none() && values::is_whole(open) {
            // A trial: the line counts once it is terminated.
            let mut trial = FormatEvidence {
                candidates: self.evidence.candidates,
                ..FormatEvidence::default()
            };
            trial.add_event(SseEvent::Data(open));
            self.evidence.format = trial.format;
        }
        self.evidence.format
    }

    /// Returns the format at the end of the stream, guessed if no record has shown it.
    pub fn finish(&mut self) -> StreamFormat {
        let (frames, evidence) = (&mut self.frames, &mut self.evidence);
        self.lines
            .finish(|line| evidence.add_line(&line, frames, self.bytes_max));
        if evidence.format.is_none() {
            frames.dispatch(&mut |event| evidence.add_event(event));
        }
        evidence.guess()
    }

    /// Returns true if a line has begun but not ended.
    pub fn is_open(&self) -> bool {
        values::is_begun(self.lines.open())
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

impl FormatEvidence {
    fn add_line(&mut self, line: &ByteLine<'_>, frames: &mut SseFrames, bytes_max: usize) {
        if self.format.is_some() {
            return;
        }
        match line {
            ByteLine::Whole(bytes) => {
                self.bytes += bytes.len();
                self.lines += usize::from(!bytes.is_empty());
                frames.line(line, &mut |event| self.add_event(event));
            }
            ByteLine::TooLong(_) => {
                self.guess();
            }
        }
        if self.lines >= LINES_MAX || self.bytes > bytes_max {
            self.guess();
        }
    }

    fn add_event(&mut self, event: SseEvent<'_>) {
        let SseEvent::Data(data) = event else {
            self.others += 1;
            return;
        };
        let text = String::from_utf8_lossy(data);
        let values =
            serde_json::Deserializer::from_str(&text).into_iter::<Maybe<FormatProbe<'_>>>();
        for value in values {
            let Ok(Maybe(Some(probe))) = value else {
                self.others += 1;
                return;
            };
            self.objects += 1;
            let is_candidate = |format: &StreamFormat| self.candidates.contains(format);
            self.format = probe.format().filter(is_candidate);
            if self.format.is_some() {
                return;
            }
        }
    }

    /// Returns the format. If no record has shown it, the most likely format becomes final.
    fn guess(&mut self) -> StreamFormat {
        let is_json = self.candidates.contains(&StreamFormat::Json)
            && self.objects > 0
            && self.objects >= self.others;
        *self.format.get_or_insert(match self.candidates.first() {
            _ if is_json => StreamFormat::Json,
            Some(first) => *first,
            None => StreamFormat::Text,
        })
    }
}
