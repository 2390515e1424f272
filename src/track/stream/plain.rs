//! Plain lines at the bottom of the screen, taken many at a time: what floods are made of (pure).
//!
//! Of a thousand lines that scroll by, all but the last few are seen by nobody. They need not be
//! painted: what would have come of it is put where it would have gone.

use super::grid::Grid;
use super::line::Line;
use super::terminal::Terminal;

/// So many bytes are taken at a time at most: what waits to be said stays bounded.
const BYTES_MAX: usize = 64 * 1024;

/// A longer line is painted.
const LINE_BYTES_MAX: usize = 4096;

/// So many bytes are looked at together.
const TOGETHER: usize = 64;

/// The plain lines that some bytes begin with: printable ASCII, each ended by `\r\n`.
#[derive(Debug, Default)]
pub(super) struct Plain<'a> {
    /// The lines, without their ends.
    lines: Vec<&'a str>,
    /// How many rows they take.
    rows: usize,
    /// How many bytes, with their ends.
    pub bytes: usize,
}

impl<'a> Plain<'a> {
    pub fn at_the_beginning(bytes: &'a [u8], width: usize) -> Self {
        let bytes = plain_part(&bytes[..bytes.len().min(BYTES_MAX)]);
        let mut plain = Self::default();
        let Ok(text) = std::str::from_utf8(bytes) else {
            return plain;
        };
        for end in memchr::memchr_iter(b'\n', bytes) {
            let line = text[plain.bytes..end].strip_suffix('\r');
            let Some(line) = line.filter(|line| line.len() <= LINE_BYTES_MAX) else {
                break;
            };
            plain.rows += rows_of(line, width);
            plain.lines.push(line);
            plain.bytes = end + 1;
        }
        // Each of them ends with one: where there are more, a line goes back to its beginning.
        if memchr::memchr_iter(b'\r', &bytes[..plain.bytes]).count() != plain.lines.len() {
            plain.end_before(|line| line.contains('\r'), width);
        }
        plain
    }

    /// Leaves out what follows the first of these lines, and that one.
    fn end_before(&mut self, is_other: impl Fn(&str) -> bool, width: usize) {
        let kept = self.lines.iter().take_while(|line| !is_other(line)).count();
        self.lines.truncate(kept);
        self.rows = self.lines.iter().map(|line| rows_of(line, width)).sum();
        self.bytes = self.lines.iter().map(|line| line.len() + 2).sum();
    }
}

/// The printable ASCII and line ends that it begins with.
fn plain_part(bytes: &[u8]) -> &[u8] {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) | (byte == b'\r') | (byte == b'\n');
    // Without a way out in between, many bytes are looked at together.
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
    /// Whether a line that is printed now does nothing but to scroll all others up.
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
            scrolled.push(row, clusters);
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
                    scrolled.push(row, clusters);
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
