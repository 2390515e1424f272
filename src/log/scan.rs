//! Reading a whole log, event by event, in memory that does not grow with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::line::{LINE_BYTES_MAX, parse_line};
use crate::error::{Error, Result};
use crate::event::{Envelope, TdEvent};

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
    let mut is_whole = true;
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
        // A line that is too long comes in pieces, and none of them is a line, whatever it reads.
        let was_whole = std::mem::replace(&mut is_whole, line.ends_with(b"\n"));
        if !was_whole || (!is_whole && line.len() as u64 == LINE_BYTES_MAX) {
            continue;
        }
        let Ok(envelope) = parse_line(&line) else {
            continue;
        };
        if !matches!(envelope.event, TdEvent::LogOpened { .. }) {
            take(&envelope);
        }
    }
}
