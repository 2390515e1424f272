//! The end of an existing log: repairs an incomplete last line, finds the last number and reads the last
//! lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::bufread::GzDecoder;

use crate::error::{Error, Result, if_exists};
use crate::event::{Envelope, LogGapRange, TdEvent};
use crate::history::line::{LINE_BYTES_MAX, parse_line};
use crate::timestamp::Timestamp;

/// The size of one read: some hundred lines.
const CHUNK_BYTES: usize = 64 * 1024;
/// Larger numbers come from a damaged file, and counting on from them could soon overflow. This is also the
/// largest integer that every JSON parser reads exactly.
pub(super) const SEQ_MAX: u64 = 1 << 53;

/// The repair of a log's last line when the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// The line was complete.
    #[default]
    Whole,
    /// The line was a complete event without a line feed, which was added.
    Completed,
    /// The line was incomplete and was removed.
    Cut {
        /// The number of bytes removed.
        bytes: u64,
    },
    /// The line is incomplete and could not be repaired; the next event begins a new line.
    Failed,
}

/// Makes the file empty or end with a whole line.
pub(super) fn repair(file: &File) -> io::Result<Repair> {
    let len = file.metadata()?.len();
    let mut last = [0];
    if len == 0 || (file.read_at(&mut last, len - 1)? == 1 && last == *b"\n") {
        return Ok(Repair::Whole);
    }
    let start = line_start(file, len)?;
    let is_whole = read_range(file, start, len)?.is_some_and(|line| parse_line(&line).is_ok());
    // The file is open for appending, so the line feed goes to its end.
    let mended = if is_whole {
        io::Write::write_all(&mut &*file, b"\n").map(|()| Repair::Completed)
    } else {
        file.set_len(start)
            .map(|()| Repair::Cut { bytes: len - start })
    };
    // A full disk may not accept the line feed. The writer then adds it before its first line.
    Ok(mended.unwrap_or(Repair::Failed))
}

/// Returns the last number that the file accounts for; `None` if no line has a number. Skips invalid lines.
pub(super) fn last_seq(file: &File) -> io::Result<Option<u64>> {
    let mut last = None;
    let moved = last_of(file, |envelope| {
        let (first, seq) = match &envelope.event {
            // The header states the next number, so all lower numbers are in use.
            TdEvent::LogOpened { first_seq, .. } => (*first_seq, first_seq.saturating_sub(1)),
            _ => LogGapRange::of(envelope).map(|gap| (gap.first, gap.last))?,
        };
        let seq = Some(seq).filter(|&seq| seq < SEQ_MAX)?;
        let Some(last) = last else {
            last = Some(seq);
            return None;
        };
        // The last two lines may have changed places.
        Some(if first == last + 1 {
            seq.max(last)
        } else {
            last
        })
    })?;
    Ok(moved.or(last))
}

/// Returns the comment of a compressed file, which states its last number, so that a list of runs need not read
/// it. The number is there twice, because damage to one of them must not look like missing events.
pub(super) fn gzip_comment(last_seq: u64) -> String {
    format!("last_seq={last_seq} {last_seq}")
}

/// Returns the last number that the comment of a compressed file states.
pub(super) fn last_seq_in_comment(file: &File) -> Option<u64> {
    let mut start = [0; 512];
    let read = file.read_at(&mut start, 0).ok()?;
    let packed = GzDecoder::new(start.get(..read)?);
    let comment = std::str::from_utf8(packed.header()?.comment()?).ok()?;
    let (one, other) = comment.strip_prefix("last_seq=")?.split_once(' ')?;
    one.parse().ok().filter(|_| one == other)
}

/// Returns the time of the last event in the file.
pub(super) fn last_ts(file: &File) -> io::Result<Option<Timestamp>> {
    last_of(file, |envelope| {
        let is_header = matches!(envelope.event, TdEvent::LogOpened { .. });
        (!is_header).then_some(envelope.ts)
    })
}

/// Returns the first result of `read` over the events, from last to first.
fn last_of<T>(file: &File, mut read: impl FnMut(&Envelope) -> Option<T>) -> io::Result<Option<T>> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        // The line feed before `end` belongs to the line.
        let start = line_start(file, end - 1)?;
        if let Some(line) = read_range(file, start, end)?
            && let Ok(envelope) = parse_line(&line)
            && let Some(value) = read(&envelope)
        {
            return Ok(Some(value));
        }
        end = start;
    }
    Ok(None)
}

/// Returns the time of the file's first line, if it is valid.
pub(super) fn first_ts(file: &File) -> io::Result<Option<Timestamp>> {
    // A header has some hundred bytes; a file that begins with a longer line has no known age.
    let mut start = vec![0; CHUNK_BYTES];
    let read = file.read_at(&mut start, 0)?;
    start.truncate(read);
    let line = start.split(|&byte| byte == b'\n').next();
    let envelope = line.and_then(|line| parse_line(line).ok());
    Ok(envelope.map(|envelope| envelope.ts))
}

/// Returns the start of the line that contains `end`.
pub(super) fn line_start(file: &File, end: u64) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut chunk_end = end;
    while chunk_end > 0 {
        let start = chunk_end.saturating_sub(CHUNK_BYTES as u64);
        // At most `CHUNK_BYTES`, so it fits.
        let chunk = &mut buffer[..(chunk_end - start) as usize];
        file.read_exact_at(chunk, start)?;
        if let Some(at) = chunk.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        chunk_end = start;
    }
    Ok(0)
}

/// Reads a line; `None` if it exceeds the limit.
fn read_range(file: &File, start: u64, end: u64) -> io::Result<Option<Vec<u8>>> {
    if end - start > LINE_BYTES_MAX {
        return Ok(None);
    }
    // At most `LINE_BYTES_MAX`, so it fits.
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(Some(bytes))
}

/// Reads the last events of a log in file order, from at most its last `bytes_max` bytes. Omits headers and
/// invalid lines, including a first line that the limit cuts. A missing log has no events.
///
/// # Errors
/// If the file cannot be read.
pub fn read_tail(path: &Path, bytes_max: u64) -> Result<Vec<Envelope>> {
    let failed = |cause| Error::file("cannot read", path, cause);
    let Some(file) = if_exists(File::open(path)).map_err(failed)? else {
        return Ok(Vec::new());
    };
    let len = file.metadata().map_err(failed)?.len();
    // One more byte shows if a line begins exactly at the limit.
    let start = len.saturating_sub(bytes_max.saturating_add(1));
    let Some(bytes) = read_range(&file, start, len).map_err(failed)? else {
        return Err(Error::invalid("the requested tail is too large to read at once:").at(path));
    };
    let whole = match (start, bytes.iter().position(|&byte| byte == b'\n')) {
        (0, _) if len <= bytes_max => bytes.as_slice(),
        (_, Some(at)) => bytes.get(at + 1..).unwrap_or_default(),
        (_, None) => &[],
    };
    Ok(whole
        .split(|&byte| byte == b'\n')
        .filter_map(|line| parse_line(line).ok())
        .filter(|envelope| !matches!(envelope.event, TdEvent::LogOpened { .. }))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;
    use crate::history::line::{LineWriter, header};

    fn text(seq: u64, text: &str) -> String {
        let event = TdEvent::Warning {
            execution_id: "a".into(),
            context: "c".into(),
            message: text.to_owned(),
        };
        line(&Envelope::new(Some(seq), Timestamp::default(), event))
    }

    fn line(envelope: &Envelope) -> String {
        let mut out = Vec::new();
        LineWriter::default().push(&mut out, envelope).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn file_with(dir: &Path, content: &[u8]) -> File {
        let path = dir.join("events.jsonl");
        fs::write(&path, content).unwrap();
        OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .unwrap()
    }

    #[test]
    fn a_cut_at_any_byte_loses_no_whole_line() {
        let temp = tempfile::tempdir().unwrap();
        let lines = [text(1, "one"), text(2, "zwei ü"), text(3, "three")];
        let all = lines.concat();
        for cut in 0..=all.len() {
            let file = file_with(temp.path(), &all.as_bytes()[..cut]);
            let repair = repair(&file).unwrap();
            let mut whole = 0;
            let mut seq = None;
            for (n, line) in lines.iter().enumerate() {
                if whole + line.len() - 1 > cut {
                    break;
                }
                whole += line.len();
                seq = Some(n as u64 + 1);
            }
            let content = fs::read_to_string(temp.path().join("events.jsonl")).unwrap();
            assert_eq!(content, all[..whole], "cut at {cut}");
            assert_eq!(last_seq(&file).unwrap(), seq, "cut at {cut}");
            match repair {
                Repair::Whole => assert_eq!(whole, cut),
                Repair::Completed => assert_eq!(whole, cut + 1),
                Repair::Cut { bytes } => assert_eq!(whole as u64, cut as u64 - bytes),
                Repair::Failed => panic!("left at {cut}"),
            }
        }
    }

    #[test]
    fn the_last_number_is_found_before_any_garbage() {
        let temp = tempfile::tempdir().unwrap();
        let gap = TdEvent::LogGap {
            execution_id: "a".into(),
            first_seq: 5,
            last_seq: 90,
        };
        let gap = line(&Envelope::new(Some(90), Timestamp::default(), gap));
        let header = line(&header(&"a".into(), Timestamp::default(), ("h", 1), 501));
        let big = "x".repeat(3 * CHUNK_BYTES);
        let seed =
            "{\"ts\":\"2026-01-21T10:00:00Z\",\"event\":{\"type\":\"X\",\"execution_id\":\"a\"}}\n";
        for (content, expected) in [
            (String::new(), None),
            ("\n\n".to_owned(), None),
            ("garbage\n".to_owned(), None),
            (seed.to_owned(), None),
            (header.clone(), Some(500)),
            (text(4, "x") + &gap, Some(90)),
            (text(4, "x") + "garbage\n\n\0\0\0\n{\"seq\":9}\n", Some(4)),
            (text(4, "x") + &big + "\n", Some(4)),
            (text(4, "x") + &text(5, &big), Some(5)),
            (text(500, "x") + &header, Some(500)),
            (text(4, "x") + seed, Some(4)),
            (text(4, "x") + &text(u64::MAX, "x"), Some(4)),
        ] {
            let file = file_with(temp.path(), content.as_bytes());
            assert_eq!(last_seq(&file).unwrap(), expected, "{:.80}", content);
        }
    }

    #[test]
    fn the_tail_is_read_within_its_bound() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        assert!(read_tail(&path, 100).unwrap().is_empty());
        let last = text(3, "three") + "broken\n" + &text(4, "four");
        let all = text(1, "one") + &text(2, "two") + &last;
        fs::write(&path, &all).unwrap();
        let seqs = |bytes_max: usize| -> Vec<u64> {
            let tail = read_tail(&path, bytes_max as u64).unwrap();
            tail.iter().filter_map(|envelope| envelope.seq).collect()
        };
        assert_eq!(seqs(all.len()), [1, 2, 3, 4]);
        assert_eq!(seqs(usize::MAX), [1, 2, 3, 4]);
        assert_eq!(seqs(all.len() - 1), [2, 3, 4]);
        assert_eq!(seqs(last.len()), [3, 4]);
        assert_eq!(seqs(last.len() - 1), [4]);
        assert_eq!(seqs(1), [] as [u64; 0]);
        fs::write(&path, all + "{\"seq\":5,\"ts\":\"20").unwrap();
        assert_eq!(seqs(usize::MAX), [1, 2, 3, 4]);
    }
}
