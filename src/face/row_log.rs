//! The events of a row in the log of its run, for faces that show its lines in parts.

use std::cell::Cell;

use super::view_lines::belongs_to_row;
use crate::board::Row;
use crate::error::Result;
use crate::event::{Envelope, TdEvent};
use crate::history::{DataDir, LogPages, Page, PageQuery};

/// The maximum number of events around a part of a log, and the size of their lines, that are read because a line may
/// begin before the part, or be revised after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub records: usize,
    pub bytes: usize,
    /// The number of blocks, of 256 KiB, that are searched for them. The events of a quiet row may be far apart.
    pub blocks: u32,
}

/// Some screens.
pub(super) const AROUND: Around = Around {
    records: 200,
    bytes: 64 * 1024,
    blocks: 16,
};

/// Returns true if an event is one of a row's views: not a screen, which the page shows as it is now.
pub(super) fn is_shown(row: &Row, event: &TdEvent) -> bool {
    !matches!(event, TdEvent::ScreenUpdate { .. }) && belongs_to_row(row, event)
}

/// The events of a row in the log of its run.
pub(super) struct RowLog<'a> {
    pub pages: LogPages,
    pub row: &'a Row,
    /// Returns true to stop reading.
    pub is_over: &'a dyn Fn() -> bool,
}

impl<'a> RowLog<'a> {
    pub fn new(data: &DataDir, row: &'a Row, is_over: &'a dyn Fn() -> bool) -> Self {
        Self {
            pages: LogPages::new(&data.run(&row.execution_id)),
            row,
            is_over,
        }
    }

    /// Returns some events before a number, of which a line may end after it.
    pub fn before(&mut self, seq: u64, around: &Around) -> Page {
        let row = self.row;
        let selects = |envelope: &Envelope| is_shown(row, &envelope.event);
        self.around(around, &selects, |pages, query| pages.before(seq, query))
    }

    /// Returns the revisions that follow a number, of lines that `is_wanted` accepts.
    pub fn revisions_after(&mut self, seq: u64, is_wanted: &dyn Fn(i64) -> bool) -> Vec<Envelope> {
        let row = self.row;
        let selects = |envelope: &Envelope| {
            let event = &envelope.event;
            matches!(event, TdEvent::OutputRevised { line, .. } if is_wanted(*line))
                && is_shown(row, event)
        };
        let page = self.around(&AROUND, &selects, |pages, query| pages.after(seq, query));
        page.events
    }

    fn around(
        &mut self,
        around: &Around,
        selects: &dyn Fn(&Envelope) -> bool,
        read: impl Fn(&mut LogPages, &PageQuery<'_>) -> Result<Page>,
    ) -> Page {
        let (blocks, is_over) = (Cell::new(0), self.is_over);
        // The blocks in which the place itself is searched do not count.
        let is_there = Cell::new(false);
        let selects = |envelope: &Envelope| {
            is_there.set(true);
            selects(envelope)
        };
        let is_stopped = || {
            blocks.set(blocks.get() + u32::from(is_there.get()));
            blocks.get() > around.blocks || is_over()
        };
        let query = PageQuery {
            records_max: around.records,
            bytes_max: around.bytes,
            selects: &selects,
            is_stopped: &is_stopped,
        };
        let page = read(&mut self.pages, &query);
        page.unwrap_or_else(|error| {
            log::debug!("{error:?}");
            Page::default()
        })
    }
}
