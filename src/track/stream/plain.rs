//! Plain lines at the bottom of the screen, taken many at a time: what floods are made of (pure).
//!
//! Of a thousand lines that scroll by, only the last few remain on the screen. The others are not
//! painted: their text goes directly to the lines that have scrolled off.

use super::grid::Grid;
use super::line::Line;
use super::terminal::Terminal;

/// The most bytes that are taken at a time, so that the text that waits to be reported stays bounded.
pub(super) const BYTES_MAX: usize = 64 * 1024;

/// The least bytes that are worth taking, where other lines are between them: bytes that are searched in
/// vain are parsed once more.
const BYTES_LEAST: usize = 512;

/// A longer line is painted.
const LINE_BYTES_MAX: usize = 4096;

/// The number of bytes that are examined together.
const TOGETHER: usize = 64;

/// The plain lines that some bytes begin with: printable ASCII, each ended by `\r\n`, or by more
/// returns, as programs print that end lines so on a terminal which ends them so itself.
#[derive(Debug, Default)]
pub(super) struct Plain<'a> {
    /// The lines, without their ends.
    lines: Vec<&'a str>,
    /// Number of rows they take.
    rows: usize,
    /// Number of bytes, with their ends.
    pub bytes: usize,
}

impl<'a> Plain<'a> {
    /// Looks at `bytes_max` of the bytes.
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
        // Where there are more than at their ends, a line goes back to its beginning: up to there.
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

    /// Returns how many bytes to examine next: in proportion to the bytes that were plain.
    pub fn next_bytes_max(&self) -> usize {
        (2 * self.bytes).clamp(BYTES_LEAST, BYTES_MAX)
    }
}

/// The printable ASCII and line ends that it begins with.
fn plain_part(bytes: &[u8]) -> &[u8] {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) | (byte == b'\r') | (byte == b'\n');
    // Without an exit in between, many bytes are examined together.
    let is_other = |others: bool, byte: &u8| others | !is_plain(*byte);
    let whole = bytes
        .chunks(TOGETHER)
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
    /// Returns whether a line that is printed now does nothing but to scroll all others up.
    pub fn only_scrolls(&self) -> bool {
        let last = self.height() - 1;
        let is_all = self.saved.is_none() && (self.upper, self.lower) == (0, last);
        let is_at_the_bottom = (self.cursor.x, self.cursor.y) == (0, last);
        let bottom = self.grid.rows.back();
        is_all
            && is_at_the_bottom
            && bottom.is_some_and(Line::is_new)
            && self.wrap
            && !self.insert
            && !self.joins
            && self.room() == 0
            && self.ink.is_plain()
    }

    /// Prints lines where that [`Terminal::only_scrolls`]; false, and nothing is done, if they do not
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

    /// Bytes scanned in vain are scanned again: that must not be all of them each time.
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
