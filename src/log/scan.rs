//! Reading a whole log, event by event, in memory that does not grow with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::line::parse_line;
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};

/// A longer line is passed over: agents' records reach one megabyte, chunks of panes 64 KiB.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Calls `take` with each event of a log, in order. Headers and broken lines are left out; a log
/// that does not exist has no events.
///
/// # Errors
/// When the file cannot be read.
pub fn scan(path: &Path, mut take: impl FnMut(&Envelope)) -> Result<()> {
    let failed = |cause| Error::file("cannot read", path, cause);
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = file
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if read == 0 {
            return Ok(());
        }
        // The pieces of a line that is too long do not parse either.
        let Ok(envelope) = parse_line(line.trim_ascii_end()) else {
            continue;
        };
        if !matches!(envelope.event, TdEvent::LogOpened { .. }) {
            take(&envelope);
        }
    }
}
