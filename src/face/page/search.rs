//! Searches in the lines of a view, over the whole log.

use std::collections::VecDeque;

use serde::Serialize;

use super::params::invalid;
use super::source::PageSource;
use crate::api::Response;
use crate::board::Row;
use crate::face::local_time::LocalTime;
use crate::face::pattern::Pattern;
use crate::face::row_log::is_shown;
use crate::face::view_lines::{Change, Content, LineView, ViewLine};
use crate::history::{LogReader, Query};
use crate::timestamp::Timestamp;

/// The maximum number of matches: the last ones.
const MATCHES_MAX: usize = 500;

/// The longest text of a match, in characters.
const TEXT_CHARS_MAX: usize = 500;

/// The number of events between two checks whether the client is still there.
const CHECK_EVENTS: u64 = 20_000;

/// The matches of a search, in the order of the log.
#[derive(Debug, Default, Serialize)]
pub(super) struct Matches {
    /// The number of all matching lines.
    count: u64,
    /// The last of them.
    matches: VecDeque<Match>,
    /// True if the whole log was searched.
    is_complete: bool,
}

/// A matching line.
#[derive(Debug, Serialize)]
struct Match {
    seq: u64,
    nth: u32,
    ts: Timestamp,
    text: String,
}

impl PageSource {
    /// Searches the lines of a row for a pattern as typed.
    pub(super) fn search(
        &self,
        row: &Row,
        view: LineView,
        typed: &str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Matches, Response> {
        let pattern = Pattern::new(typed);
        let pattern = pattern.ok_or_else(|| invalid("q: give a pattern".to_owned()))?;
        let mut matches = Matches::default();
        let log = match LogReader::open(&self.data.run(&row.execution_id), Query::all()) {
            Ok(log) => log,
            Err(error) => {
                log::debug!("{error:?}");
                return Ok(matches);
            }
        };
        let mut content = Content::new(view, LocalTime::of_system());
        for (read, record) in (1_u64..).zip(log) {
            if is_shown(row, &record.envelope.event) {
                content.push(&record.envelope, &mut |change| {
                    if let Change::Line(line) = change
                        && pattern.matches(&line.text.text)
                    {
                        matches.add(line);
                    }
                });
            }
            if read.is_multiple_of(CHECK_EVENTS) && is_over() {
                return Ok(matches);
            }
        }
        matches.is_complete = true;
        Ok(matches)
    }
}

impl Matches {
    fn add(&mut self, line: ViewLine) {
        self.count += 1;
        if self.matches.len() >= MATCHES_MAX {
            self.matches.pop_front();
        }
        let mut text = line.text.text;
        if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
            text.truncate(end);
            text.push('…');
        }
        self.matches.push_back(Match {
            seq: line.at.seq,
            nth: line.at.nth,
            ts: line.ts,
            text,
        });
    }
}
