//! Reads HTTP/1.1 bodies in chunked transfer coding, which have no known length.

use std::io::{self, BufRead, Read};

/// The longest accepted line with the size of a chunk.
const SIZE_BYTES_MAX: usize = 64;

/// Decodes a chunked body. A read that times out within a chunk loses no bytes.
pub(super) struct Chunked<R> {
    reader: R,
    /// The received part of a chunk's size line. It is kept because a read may time out within the line.
    size: Vec<u8>,
    left: u64,
    is_over: bool,
}

impl<R: BufRead> Chunked<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            size: Vec::new(),
            left: 0,
            is_over: false,
        }
    }

    /// Returns the underlying reader.
    pub(super) fn get_ref(&self) -> &R {
        &self.reader
    }

    fn begin_chunk(&mut self) -> io::Result<()> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a chunk has no size");
        // The line end after the previous chunk, if any, then the size.
        loop {
            let room = SIZE_BYTES_MAX.saturating_sub(self.size.len()) as u64;
            let mut line = (&mut self.reader).take(room);
            if line.read_until(b'\n', &mut self.size)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.size != b"\r\n" {
                break;
            }
            self.size.clear();
        }
        let line = std::mem::take(&mut self.size);
        let text = std::str::from_utf8(&line).map_err(|_| invalid())?;
        let text = text.strip_suffix('\n').ok_or_else(invalid)?;
        self.left = u64::from_str_radix(text.trim(), 16).map_err(|_| invalid())?;
        self.is_over = self.left == 0;
        Ok(())
    }
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.begin_chunk()?;
        }
        if self.is_over {
            return Ok(0);
        }
        let room = out
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.reader.read(&mut out[..room])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Times out once before each byte.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.1 {
                true => Err(io::ErrorKind::WouldBlock.into()),
                false => self.0.read(&mut out[..1]),
            }
        }
    }

    #[test]
    fn a_wait_that_ends_loses_nothing() {
        let text = b"10\r\n0123456789abcdef\r\n3\r\nxyz\r\n0\r\n\r\n";
        let mut body = Chunked::new(BufReader::with_capacity(1, Slow(text, false)));
        let (mut out, mut buffer) = (Vec::new(), [0; 5]);
        loop {
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => out.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(out, b"0123456789abcdefxyz");
    }

    #[test]
    fn sizes_are_checked() {
        let long = "0".repeat(SIZE_BYTES_MAX) + "1\r\nx";
        for (text, kind) in [
            ("x\r\n", io::ErrorKind::InvalidData),
            ("\r\n\r\n3", io::ErrorKind::InvalidData),
            (&long, io::ErrorKind::InvalidData),
            ("", io::ErrorKind::UnexpectedEof),
            ("3\r\nab", io::ErrorKind::UnexpectedEof),
        ] {
            let read = Chunked::new(text.as_bytes()).read_to_end(&mut Vec::new());
            assert_eq!(read.unwrap_err().kind(), kind, "{text:?}");
        }
    }
}
