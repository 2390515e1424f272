//! The panes that are displayed (pure).

use std::collections::BTreeMap;

use super::pane_display::{PaneDisplay, PanePolicy, PaneSink};
use super::pane_writer::PaneWriter;
use super::printed_rows::PrintedRows;
use super::row_writer::RowWriter;
use crate::event::PaneId;
use crate::face::line_styles::LineStyles;
use crate::face::session_labels::Label;

/// The execution and the id of a pane.
pub(super) type PaneKey = (String, PaneId);

/// A displayed pane.
#[derive(Debug, Default)]
pub(super) struct KnownPane {
    /// Identifies the pane's lines on the terminal; never reused.
    pub number: u64,
    pub display: PaneDisplay,
    pub styles: LineStyles,
}

/// All displayed panes.
#[derive(Debug, Default)]
pub(super) struct Panes {
    pub map: BTreeMap<PaneKey, KnownPane>,
    /// The number of panes so far.
    count: u64,
}

impl Panes {
    /// Returns a pane; adds it if it is new.
    pub fn get(&mut self, id: &str, pane: &PaneId) -> &mut KnownPane {
        let panes = self.map.entry((id.to_owned(), pane.clone()));
        panes.or_insert_with(|| {
            self.count += 1;
            KnownPane {
                number: self.count,
                ..KnownPane::default()
            }
        })
    }

    pub fn remove(&mut self, id: &str, pane: &PaneId) -> Option<KnownPane> {
        self.map.remove(&(id.to_owned(), pane.clone()))
    }
}

impl KnownPane {
    /// Calls `act` with the display, and writes its output; returns the last error message in it.
    pub fn write(
        &mut self,
        rows: &RowWriter,
        label: &Label,
        printed: &mut PrintedRows,
        out: &mut String,
        policy: &PanePolicy,
        act: impl FnOnce(&mut PaneDisplay, &mut PaneSink<'_>),
    ) -> Option<String> {
        let is_for_people = rows.options.coloured || rows.columns.is_some();
        let mut writer = PaneWriter {
            rows,
            label,
            number: self.number,
            styles: &self.styles,
            printed,
            finds_errors: is_for_people && !self.display.has_agent(),
            error: None,
            out,
        };
        let mut sink = PaneSink {
            policy,
            emit: &mut |output| writer.write(output),
        };
        act(&mut self.display, &mut sink);
        writer.error
    }
}
