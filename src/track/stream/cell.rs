//! One cell of the grid: a character, a cluster of several, or the second half of a wide one (pure).

use rustc_hash::FxHashMap;

use super::widths::Widths;
use crate::track::version::TmuxVersion;

/// The longest cluster, in bytes: tmux drops marks beyond it.
const CLUSTER_BYTES_MAX: usize = 32;
/// The same before 3.6.
const CLUSTER_BYTES_MAX_OLD: usize = 21;

/// So many different clusters are held before those that no cell shows are given up: more than any
/// screen has as a rule, and little memory.
const CLUSTERS_MAX: usize = 4096;

/// The content of a cell, in four bytes: there are a great many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(u32);

/// A cluster's number is marked by this bit, which no character has.
const CLUSTER: u32 = 1 << 21;

impl Cell {
    pub const BLANK: Self = Self(' ' as u32);

    /// The second half of a wide character.
    pub const PADDING: Self = Self(char::MAX as u32 + 1);

    pub fn ascii(byte: u8) -> Self {
        Self(u32::from(byte))
    }

    /// Returns what is below 128 is ASCII.
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

/// A character with marks on it, and how many columns it takes: a mark may make it wider. A tab is
/// kept so, too.
type Cluster = (Box<str>, u8);

/// Characters with marks on them, each kept once.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    pub widths: Widths,
    bytes_max: usize,
    texts: Vec<Cluster>,
    numbers: FxHashMap<Cluster, usize>,
    /// Number of clusters shown when the others were dropped: searching them again before
    /// there are twice as many would be in vain, over and over.
    kept: usize,
}

impl Clusters {
    /// None yet, in a tmux of this version.
    pub fn new(version: TmuxVersion) -> Self {
        Self {
            widths: Widths::of(version),
            bytes_max: match version < TmuxVersion::new(3, 6) {
                true => CLUSTER_BYTES_MAX_OLD,
                false => CLUSTER_BYTES_MAX,
            },
            texts: Vec::new(),
            numbers: FxHashMap::default(),
            kept: 0,
        }
    }

    /// Returns whether those that are not shown should be given up.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= CLUSTERS_MAX.max(2 * self.kept)
    }

    /// Appends what a cell shows.
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

    /// Returns whether a cell is a tab, which is shown as blanks up to the next tab stop.
    pub fn is_tab(&self, cell: Cell) -> bool {
        cell.cluster()
            .is_some_and(|number| self.text(number) == "\t")
    }

    /// Returns how many characters a cell shows.
    pub fn chars(&self, cell: Cell) -> usize {
        match (char::from_u32(cell.0), cell.cluster()) {
            (Some(_), _) => 1,
            (None, Some(number)) => self.text(number).chars().count(),
            (None, None) => 0,
        }
    }

    /// Returns how many columns a cell's own character takes.
    pub fn columns(&self, cell: Cell) -> usize {
        match (char::from_u32(cell.0), cell.cluster()) {
            (Some(character), _) => self.widths.columns(character).unwrap_or(1),
            (None, Some(number)) => self.texts.get(number).map_or(1, |one| usize::from(one.1)),
            (None, None) => 1,
        }
    }

    /// The cell with a mark put on it, if it has room.
    pub fn combine(&mut self, cell: Cell, mark: char) -> Option<Cell> {
        self.combine_as(cell, mark, self.columns(cell))
    }

    /// Combines a mark with a cell; the result takes `columns` columns.
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

    /// The cell with a text behind its own, however long.
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
        let one: Cluster = (text.into(), u8::try_from(columns).ok()?);
        let number = match self.numbers.get(&one) {
            Some(&number) => number,
            None => {
                // A screen that shows more than fit has them without further marks.
                if self.texts.len() >= CLUSTER as usize {
                    return None;
                }
                self.texts.push(one.clone());
                self.numbers.insert(one, self.texts.len() - 1);
                self.texts.len() - 1
            }
        };
        Some(Cell(CLUSTER | u32::try_from(number).ok()?))
    }

    /// Gives up the clusters that none of the cells shows, and numbers the others anew.
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

impl Default for Clusters {
    fn default() -> Self {
        Self::new(TmuxVersion::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(clusters: &Clusters, cell: Cell) -> String {
        let mut text = String::new();
        clusters.show(cell, &mut text);
        text
    }

    #[test]
    fn marks_go_on_characters_as_far_as_there_is_room() {
        let mut clusters = Clusters::default();
        let mut cell = Cell::of('漢');
        while let Some(more) = clusters.combine(cell, '\u{301}') {
            cell = more;
        }
        assert_eq!(shown(&clusters, cell).len(), CLUSTER_BYTES_MAX_OLD);
        assert_eq!(clusters.columns(cell), 2);
        assert_eq!(shown(&clusters, Cell::PADDING), "");
    }

    #[test]
    fn clusters_not_shown_are_dropped() {
        let mut clusters = Clusters::default();
        let cell =
            |clusters: &mut Clusters, base| clusters.combine(Cell::of(base), '\u{301}').unwrap();
        let _gone = cell(&mut clusters, 'a');
        let mut kept = cell(&mut clusters, 'b');
        clusters.keep([&mut kept, &mut Cell::BLANK.clone()].into_iter());
        assert_eq!(shown(&clusters, kept), "b\u{301}");
        assert_eq!(clusters.texts.len(), 1);
    }

    /// Looking for some to give up costs as much as there are.
    #[test]
    fn clusters_in_use_are_not_searched_for_each_mark() {
        let mut clusters = Clusters::default();
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
        // Once they are gone the bound is the old one.
        clusters.keep(std::iter::empty());
        assert!(!clusters.is_full());
        for number in 0..CLUSTERS_MAX as u32 {
            let base = char::from_u32(0x4e00 + number).unwrap();
            clusters.combine(Cell::of(base), '\u{301}');
        }
        assert!(clusters.is_full());
    }
}
