//! One cell of the grid: a character, a cluster, or the second half of a wide character (pure).

use std::sync::OnceLock;

use super::super::capture::TmuxVersion;
use rustc_hash::FxHashMap;
use unicode_width::UnicodeWidthChar;

/// The zero-width joiner: the next character goes into the same cell.
pub(super) const JOINER: char = '\u{200d}';

/// The number of different clusters from which on those that no cell shows are dropped: more than a
/// screen usually has, in little memory.
const CLUSTERS_MAX: usize = 4096;

/// The content of a cell. It takes only four bytes, because a screen has many cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(u32);

/// The bit that marks the number of a cluster; no character has it.
const CLUSTER: u32 = 1 << 21;

impl Cell {
    pub const BLANK: Self = Self(' ' as u32);

    /// The second half of a wide character.
    pub const PADDING: Self = Self(char::MAX as u32 + 1);

    pub fn ascii(byte: u8) -> Self {
        Self(u32::from(byte))
    }

    /// Returns the code; one below 128 is ASCII.
    pub fn code(self) -> u32 {
        self.0
    }

    pub fn of(character: char) -> Self {
        Self(u32::from(character))
    }

    fn cluster(self) -> Option<usize> {
        (self.0 & CLUSTER != 0).then_some((self.0 & !CLUSTER) as usize)
    }
}

/// A character with marks, and its columns: a mark may make it wider. A tab is a cluster, too.
type Cluster = (Box<str>, u8);

/// All clusters of a terminal, each stored once.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    pub widths: Widths,
    /// The longest cluster: tmux drops marks beyond it.
    bytes_max: usize,
    texts: Vec<Cluster>,
    numbers: FxHashMap<Cluster, usize>,
    /// The number of clusters kept by the last [`Clusters::keep`]. The next one waits for twice as many,
    /// so that cells are not searched again and again without an effect.
    kept: usize,
}

impl Clusters {
    /// Creates an empty store for this version.
    pub fn new(version: TmuxVersion) -> Self {
        Self {
            widths: Widths::of(version),
            bytes_max: if version < TmuxVersion::new(3, 6) {
                21
            } else {
                32
            },
            texts: Vec::new(),
            numbers: FxHashMap::default(),
            kept: 0,
        }
    }

    /// Returns true if clusters that no cell shows should be dropped with [`Clusters::keep`].
    pub fn is_full(&self) -> bool {
        self.texts.len() >= CLUSTERS_MAX.max(2 * self.kept)
    }

    /// Appends the text of a cell.
    pub fn show(&self, cell: Cell, text: &mut String) {
        match (char::from_u32(cell.0), cell.cluster()) {
            (Some(character), _) => text.push(character),
            (None, Some(number)) => text.push_str(self.text(number)),
            (None, None) => {}
        }
    }

    fn text(&self, number: usize) -> &str {
        self.texts.get(number).map_or("", |(text, _)| text)
    }

    /// Returns true if a cell is a tab, which is expanded to blanks up to the next tab stop.
    pub fn is_tab(&self, cell: Cell) -> bool {
        cell.cluster()
            .is_some_and(|number| self.text(number) == "\t")
    }

    /// Returns the number of characters of a cell.
    pub fn chars(&self, cell: Cell) -> usize {
        match (char::from_u32(cell.0), cell.cluster()) {
            (Some(_), _) => 1,
            (None, Some(number)) => self.text(number).chars().count(),
            (None, None) => 0,
        }
    }

    /// Returns the columns of a cell's character.
    pub fn columns(&self, cell: Cell) -> usize {
        match (char::from_u32(cell.0), cell.cluster()) {
            (Some(character), _) => self.widths.columns(character).unwrap_or(1),
            (None, Some(number)) => self
                .texts
                .get(number)
                .map_or(1, |(_, columns)| usize::from(*columns)),
            (None, None) => 1,
        }
    }

    /// Adds a mark to a cell. Returns `None` if the cluster would be too long.
    pub fn combine(&mut self, cell: Cell, mark: char) -> Option<Cell> {
        self.combine_as(cell, mark, self.columns(cell))
    }

    /// Adds a mark to a cell, which takes `columns` columns then.
    pub fn combine_as(&mut self, cell: Cell, mark: char, columns: usize) -> Option<Cell> {
        let mut text = String::new();
        self.show(cell, &mut text);
        if text.len() + mark.len_utf8() > self.bytes_max {
            return None;
        }
        if text != "\t" {
            text.push(mark);
        }
        self.number(&text, columns)
    }

    /// Appends text of any length to a cell.
    pub fn with(&mut self, cell: Cell, more: &str) -> Cell {
        let mut text = String::new();
        self.show(cell, &mut text);
        text.push_str(more);
        self.number(&text, self.columns(cell)).unwrap_or(cell)
    }

    /// Returns a tab that takes `columns` columns.
    pub fn tab(&mut self, columns: usize) -> Option<Cell> {
        (columns <= self.bytes_max).then(|| self.number("\t", columns))?
    }

    fn number(&mut self, text: &str, columns: usize) -> Option<Cell> {
        let cluster: Cluster = (text.into(), u8::try_from(columns).ok()?);
        let number = match self.numbers.get(&cluster) {
            Some(&number) => number,
            None => {
                // No number is left, so the cell stays without the mark.
                if self.texts.len() >= CLUSTER as usize {
                    return None;
                }
                self.texts.push(cluster.clone());
                self.numbers.insert(cluster, self.texts.len() - 1);
                self.texts.len() - 1
            }
        };
        Some(Cell(CLUSTER | u32::try_from(number).ok()?))
    }

    /// Drops the clusters that none of the cells shows, and renumbers the others.
    pub fn keep<'a>(&mut self, cells: impl Iterator<Item = &'a mut Cell>) {
        let old = std::mem::take(&mut self.texts);
        self.numbers.clear();
        for cell in cells {
            if let Some((text, columns)) = cell.cluster().and_then(|number| old.get(number)) {
                let kept = self.number(text, usize::from(*columns));
                *cell = kept.unwrap_or(Cell::BLANK);
            }
        }
        self.kept = self.texts.len();
    }
}

// The width of characters in each version of tmux (pure).
//
// tmux uses the table of its C library, which is not known here. The tables are those of Debian's
// builds. Where another library differs, the comparison of screens finds the difference.

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
        let tables = READ.get_or_init(|| read(include_str!("widths.txt")));
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

/// Reads the tables: one range per line, with the first and last character and the columns.
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
    mod cell {

        use super::super::*;

        fn shown(clusters: &Clusters, cell: Cell) -> String {
            let mut text = String::new();
            clusters.show(cell, &mut text);
            text
        }

        #[test]
        fn marks_go_on_characters_as_far_as_there_is_room() {
            let mut clusters = Clusters::new(TmuxVersion::default());
            let mut cell = Cell::of('漢');
            while let Some(more) = clusters.combine(cell, '\u{301}') {
                cell = more;
            }
            assert_eq!(shown(&clusters, cell).len(), 21);
            assert_eq!(clusters.columns(cell), 2);
            assert_eq!(shown(&clusters, Cell::PADDING), "");
        }

        #[test]
        fn clusters_not_shown_are_dropped() {
            let mut clusters = Clusters::new(TmuxVersion::default());
            let cell = |clusters: &mut Clusters, base| {
                clusters.combine(Cell::of(base), '\u{301}').unwrap()
            };
            let _gone = cell(&mut clusters, 'a');
            let mut kept = cell(&mut clusters, 'b');
            clusters.keep([&mut kept, &mut Cell::BLANK.clone()].into_iter());
            assert_eq!(shown(&clusters, kept), "b\u{301}");
            assert_eq!(clusters.texts.len(), 1);
        }

        /// Dropping clusters costs as much as there are cells, so it must be rare.
        #[test]
        fn clusters_in_use_are_not_searched_for_each_mark() {
            let mut clusters = Clusters::new(TmuxVersion::default());
            let mut cells = Vec::new();
            let mut searches = 0;
            for number in 0..20_000 {
                if clusters.is_full() {
                    searches += 1;
                    clusters.keep(cells.iter_mut());
                }
                let base = char::from_u32(0x4e00 + number).unwrap();
                cells.push(clusters.combine(Cell::of(base), '\u{301}').unwrap());
            }
            assert_eq!(searches, 3);
            // Without clusters, the bound is the initial one.
            clusters.keep(std::iter::empty());
            assert!(!clusters.is_full());
            for number in 0..CLUSTERS_MAX as u32 {
                let base = char::from_u32(0x4e00 + number).unwrap();
                clusters.combine(Cell::of(base), '\u{301}');
            }
            assert!(clusters.is_full());
        }
    }

    mod widths {

        use super::super::*;

        #[test]
        fn tables_are_complete_and_sorted() {
            let lines = include_str!("widths.txt")
                .lines()
                .filter(|line| !line.starts_with(['#', 't']));
            let tables = read(include_str!("widths.txt"));
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
            let columns = |version: &str, character| {
                Widths::of(TmuxVersion::parse(version)).columns(character)
            };
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
                let found =
                    ["3.3a", "3.5a", "3.6b", "3.8"].map(|version| columns(version, character));
                assert_eq!(found, expected, "{character:?}");
            }
        }
    }
}
