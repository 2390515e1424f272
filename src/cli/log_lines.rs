//! Keeps the last lines of an output: `log -n LINES` (pure).

use std::collections::VecDeque;
use std::io::{self, Write};

/// A writer that holds the last lines until they are released, and then passes everything on.
#[derive(Debug)]
pub(super) struct LastLines<W> {
    out: W,
    /// The held lines, the last of which may be incomplete, and their maximum number.
    held: Option<(VecDeque<Vec<u8>>, usize)>,
}

impl<W: Write> LastLines<W> {
    /// Holds up to `lines_max` lines; without a maximum, passes on everything.
    pub fn new(out: W, lines_max: Option<usize>) -> Self {
        Self {
            out,
            held: lines_max.map(|lines_max| (VecDeque::new(), lines_max)),
        }
    }

    /// Writes the held lines. Later output is passed on.
    pub fn release(&mut self) -> io::Result<()> {
        if let Some((lines, _)) = self.held.take() {
            for line in lines {
                self.out.write_all(&line)?;
            }
        }
        self.out.flush()
    }
}

impl<W: Write> Write for LastLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((lines, lines_max)) = &mut self.held else {
            return self.out.write(bytes);
        };
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            match lines.back_mut().filter(|line| !line.ends_with(b"\n")) {
                Some(open) => open.extend_from_slice(part),
                None => lines.push_back(part.to_vec()),
            }
            while lines.len() > *lines_max {
                lines.pop_front();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.held {
            Some(_) => Ok(()),
            None => self.out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_however_they_are_written() {
        let text = b"one\ntwo\nthree\nfour";
        for step in 1..text.len() {
            for (lines, expected) in [
                (0, ""),
                (1, "four"),
                (2, "three\nfour"),
                (9, "one\ntwo\nthree\nfour"),
            ] {
                let mut last = LastLines::new(Vec::new(), Some(lines));
                for part in text.chunks(step) {
                    last.write_all(part).unwrap();
                }
                last.release().unwrap();
                last.write_all(b"!").unwrap();
                let written = String::from_utf8(last.out).unwrap();
                assert_eq!(written, format!("{expected}!"), "{step} {lines}");
            }
        }
    }
}
