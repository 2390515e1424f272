//! The width of characters in each version of tmux (pure).
//!
//! tmux uses the table of its C library, which is not known here. The tables are those of Debian's
//! builds. Where another library differs, the comparison of screens finds the difference.

use std::sync::OnceLock;

use unicode_width::UnicodeWidthChar;

use crate::track::version::TmuxVersion;

/// One range per line: first and last character, columns.
const TABLES: &str = include_str!("widths.txt");

/// The first version of each table.
const VERSIONS: [TmuxVersion; 3] = [
    TmuxVersion::new(3, 3),
    TmuxVersion::new(3, 4),
    TmuxVersion::new(3, 6),
];

/// The first and last code of a range, and the columns of its characters.
type Range = (u32, u32, Option<usize>);

/// The widths of characters in a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    /// The differences from the crate unicode-width, in order.
    ranges: &'static [Range],
    /// Controls beyond ASCII have no width; older versions do not print them.
    has_controls: bool,
}

impl Widths {
    pub fn of(version: TmuxVersion) -> Self {
        static READ: OnceLock<[Vec<Range>; VERSIONS.len()]> = OnceLock::new();
        let tables = READ.get_or_init(|| read(TABLES));
        let at = VERSIONS.iter().rposition(|first| *first <= version);
        Self {
            ranges: &tables[at.unwrap_or(0)],
            has_controls: version >= TmuxVersion::new(3, 4),
        }
    }

    /// Returns the columns of a character; `None` if tmux does not print it.
    pub fn columns(&self, character: char) -> Option<usize> {
        let code = u32::from(character);
        if matches!(code, 0x80..=0x9f) {
            return self.has_controls.then_some(0);
        }
        let after = self.ranges.partition_point(|range| range.0 <= code);
        match after.checked_sub(1).map(|at| self.ranges[at]) {
            Some((_, last, columns)) if code <= last => columns,
            _ => character.width(),
        }
    }
}

fn read(text: &str) -> [Vec<Range>; VERSIONS.len()] {
    let mut tables: [Vec<Range>; VERSIONS.len()] = Default::default();
    let mut at = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((range, columns)) = line.split_once(' ') else {
            continue;
        };
        if range == "tmux" {
            let version = TmuxVersion::parse(columns);
            at = VERSIONS
                .iter()
                .position(|first| *first == version)
                .unwrap_or(at);
            continue;
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let code = |text| u32::from_str_radix(text, 16);
        if let (Ok(first), Ok(last)) = (code(first), code(last)) {
            tables[at].push((first, last, columns.parse().ok()));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete_and_sorted() {
        let lines = TABLES.lines().filter(|line| !line.starts_with(['#', 't']));
        let tables = read(TABLES);
        assert_eq!(tables.iter().map(Vec::len).sum::<usize>(), lines.count());
        for table in &tables {
            assert!(table.iter().all(|range| range.0 <= range.1), "{table:?}");
            assert!(
                table.is_sorted_by(|range, next| range.1 < next.0),
                "{table:?}"
            );
        }
    }

    #[test]
    fn characters_are_as_wide_as_in_each_version() {
        let columns =
            |version: &str, character| Widths::of(TmuxVersion::parse(version)).columns(character);
        for (character, expected) in [
            ('漢', [Some(2); 4]),
            ('é', [Some(1); 4]),
            ('\u{301}', [Some(0); 4]),
            // Unassigned, a noncharacter, a line separator: dropped, later one column.
            ('\u{378}', [None, Some(1), Some(1), Some(1)]),
            ('\u{fdd0}', [None, Some(1), Some(1), Some(1)]),
            ('\u{2028}', [None, Some(1), Some(1), Some(1)]),
            ('\u{85}', [None, Some(0), Some(0), Some(0)]),
            // A regional indicator, half of a flag.
            ('\u{1f1e9}', [Some(1), Some(2), Some(1), Some(1)]),
            // Unicode 16 and 17.
            ('\u{1fae9}', [None, Some(2), Some(2), Some(2)]),
            ('\u{1facd}', [None, Some(1), Some(2), Some(2)]),
        ] {
            let found = ["3.3a", "3.5a", "3.6b", "3.8"].map(|version| columns(version, character));
            assert_eq!(found, expected, "{character:?}");
        }
    }
}
