//! Prints plain lines at the bottom of the screen in bulk (pure).
//!
//! Of a thousand lines that scroll by, only the last few remain on the screen. The text of the others
//! goes directly to the lines that have scrolled off, without the grid.

use super::grid::Grid;
use super::grid_row::GridRow;
use super::terminal::Terminal;

/// The most bytes taken at a time, which bounds the text that waits to be reported.
pub(super) const BYTES_MAX: usize = 64 * 1024;

/// The fewest bytes to scan. Scanned bytes that are not plain are parsed again.
const BYTES_LEAST: usize = 512;

/// The longest line, in bytes. Longer ones are printed through the grid.
const LINE_BYTES_MAX: usize = 4096;

/// The number of bytes that are examined at once.
const SCAN_BYTES: usize = 64;

/// Leading plain lines: printable ASCII, each ended by `\n` after one or more `\r`. Programs that print
/// `\r\n` themselves send `\r\r\n`, because the terminal adds a return.
#[derive(Debug, Default)]
pub(super) struct Plain<'a> {
    /// The lines, without their ends.
    lines: Vec<&'a str>,
    /// Their number of rows.
    rows: usize,
    /// Their number of bytes, including their ends.
    pub bytes: usize,
}

impl<'a> Plain<'a> {
    /// Scans up to `bytes_max` bytes for leading plain lines.
    pub fn leading(bytes: &'a [u8], bytes_max: usize, width: usize) -> Self {
        let bytes = plain_part(&bytes[..bytes.len().min(bytes_max)]);
        let mut plain = Self::default();
        let mut returns = 0;
        let Ok(text) = std::str::from_utf8(bytes) else {
            return plain;
        };
        for end in memchr::memchr_iter(b'\n', bytes) {
            let Some(mut line) = text[plain.bytes..end].strip_suffix('\r') else {
                break;
            };
            while let Some(shorter) = line.strip_suffix('\r') {
                line = shorter;
            }
            if line.len() > LINE_BYTES_MAX {
                break;
            }
            returns += end - plain.bytes - line.len();
            plain.rows += rows_of(line, width);
            plain.lines.push(line);
            plain.bytes = end + 1;
        }
        // A return within a line overwrites it, so the plain lines end before that line.
        if memchr::memchr_iter(b'\r', &bytes[..plain.bytes]).count() != returns {
            let lines = plain.lines.iter();
            let kept = lines.take_while(|line| !line.contains('\r')).count();
            plain.lines.truncate(kept);
            plain.rows = plain.lines.iter().map(|line| rows_of(line, width)).sum();
            let end = memchr::memchr_iter(b'\n', bytes).take(kept).last();
            plain.bytes = end.map_or(0, |end| end + 1);
        }
        plain
    }

    /// Returns how many bytes to scan next, in proportion to the plain bytes.
    pub fn next_bytes_max(&self) -> usize {
        (2 * self.bytes).clamp(BYTES_LEAST, BYTES_MAX)
    }
}

/// Returns the leading printable ASCII and line ends.
fn plain_part(bytes: &[u8]) -> &[u8] {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) | (byte == b'\r') | (byte == b'\n');
    // A loop without an early exit can examine many bytes at once.
    let is_other = |others: bool, byte: &u8| others | !is_plain(*byte);
    let whole = bytes
        .chunks(SCAN_BYTES)
        .take_while(|chunk| !chunk.iter().fold(false, is_other))
        .map(<[u8]>::len)
        .sum();
    let (plain, rest) = bytes.split_at(whole);
    let more = rest.iter().take_while(|byte| is_plain(**byte)).count();
    &bytes[..plain.len() + more]
}

fn rows_of(line: &str, width: usize) -> usize {
    match line.len() {
        short if short <= width => 1,
        long => long.div_ceil(width),
    }
}

impl Terminal {
    /// Returns true if a plain line printed now only scrolls all others up.
    pub fn only_scrolls(&self) -> bool {
        let last = self.height() - 1;
        let is_all = self.saved.is_none() && (self.upper, self.lower) == (0, last);
        let is_at_the_bottom = (self.cursor.x, self.cursor.y) == (0, last);
        let bottom = self.grid.rows.back();
        is_all
            && is_at_the_bottom
            && bottom.is_some_and(GridRow::is_new)
            && self.wrap
            && !self.insert
            && !self.joins
            && self.room() == 0
            && self.ink.is_plain()
    }

    /// Prints lines if that [`Terminal::only_scrolls`]. Returns false, without printing, if they do not
    /// fill the screen.
    pub fn print_lines(&mut self, plain: &Plain<'_>) -> bool {
        let (width, last) = (self.width(), self.height() - 1);
        let Some(mut off) = plain.rows.checked_sub(last).filter(|_| plain.rows > 0) else {
            return false;
        };
        let Grid {
            rows,
            clusters,
            scrolled,
            ..
        } = &mut self.grid;
        for row in rows.iter().take(last) {
            scrolled.push(row, clusters, width);
        }
        let mut y = 0;
        for line in &plain.lines {
            let count = rows_of(line, width);
            if count <= off && scrolled.open().is_none() {
                scrolled.push_line(line, count as u32);
                off -= count;
                continue;
            }
            let mut rest = line.as_bytes();
            for left in (0..count).rev() {
                let (now, after) = rest.split_at(rest.len().min(width));
                rest = after;
                let Some(row) = rows.get_mut(y) else { break };
                row.reset(0);
                row.set_ascii(0, now, width);
                row.wrapped = left > 0;
                if off > 0 {
                    scrolled.push(row, clusters, width);
                    off -= 1;
                } else {
                    y += 1;
                }
            }
        }
        if let Some(bottom) = rows.back_mut() {
            bottom.reset(0);
        }
        self.last = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> (Vec<&str>, usize) {
        let plain = Plain::leading(text.as_bytes(), BYTES_MAX, 80);
        (plain.lines, plain.bytes)
    }

    #[test]
    fn lines_may_end_with_several_returns() {
        assert_eq!(plain("a\r\r\n\r\r\r\nb\r\nc"), (vec!["a", "", "b"], 11));
    }

    #[test]
    fn a_line_that_is_drawn_again_is_not_plain() {
        assert_eq!(plain("a\r\r\nb\r\n1\r2\r\nc\r\n"), (vec!["a", "b"], 7));
        assert_eq!(plain("1\r2\r\nc\r\n"), (vec![], 0));
    }

    /// Scanned bytes that are not plain are parsed again, so few are scanned next.
    #[test]
    fn few_bytes_are_scanned_where_few_are_plain() {
        let text = "1\r2\r\n".repeat(100_000);
        let plain = Plain::leading(text.as_bytes(), BYTES_MAX, 80);
        assert_eq!(plain.next_bytes_max(), BYTES_LEAST);
        let text = "1\r\n".repeat(100_000);
        let plain = Plain::leading(text.as_bytes(), BYTES_LEAST, 80);
        assert_eq!(plain.next_bytes_max(), 2 * plain.bytes);
    }
}
