//! Reads parts of files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads `bytes` bytes from `offset` on, or fewer if the file ends before.
///
/// # Errors
/// The error of the system. Interrupted reads are continued.
pub(super) fn read_at(file: &File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(read);
    Ok(buffer)
}

/// Returns the position after the first line end, or the length of a text without one: bytes that were
/// read from the middle of a file begin with a partial line.
pub(super) fn after_partial_line(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)
}
