//! The threads that read the logs of runs: `td-tui-pages` reads pages around the reader, `td-tui-scan` whole
//! histories for searches, filters and the timeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, select_biased};

use super::effect::{Input, PageRequest, Place, ScanRequest, Screen};
use super::feeds::screen_of;
use super::searching::{Scan, ScanState};
use super::timeline::{Bands, note};
use super::wake::InputSender;
use super::window::{BYTES_MAX, EVENTS_FOLLOWED, belongs_to_row};
use crate::board::Board;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Cursor, Envelope, EventKind, Styles, TdEvent};
use crate::history::{DataDir, LogPages, LogReader, Page, PageQuery, Query};
use crate::thread::{Stop, is_stopped};
use crate::timestamp::Timestamp;

/// The events of a page that is loaded in advance.
const PAGE_EVENTS: usize = 500;

/// The events between two progress reports of a scan, which then checks for cancellation.
const SCAN_STEP: u64 = 20_000;

/// The state that the threads share.
#[derive(Clone)]
pub(super) struct LogAccess {
    pub data: DataDir,
    pub clock: Clock,
    pub stop: Stop,
    /// The latest generation. Results for earlier generations are discarded.
    pub generation: Arc<AtomicU64>,
}

impl LogAccess {
    fn is_over(&self, generation: u64) -> bool {
        is_stopped(&self.stop) || self.generation.load(Ordering::Relaxed) != generation
    }

    /// Waits for the next request; `None` at the end of the UI.
    fn next<T>(&self, requests: &Receiver<T>) -> Option<T> {
        select_biased! {
            recv(self.stop) -> _ => None,
            recv(requests) -> request => request.ok(),
        }
    }
}

pub(super) fn read_pages(
    access: &LogAccess,
    requests: &Receiver<PageRequest>,
    inputs: &InputSender,
) {
    while let Some(request) = access.next(requests) {
        if access.is_over(request.generation) {
            continue;
        }
        let found = read_page(access, &request);
        let generation = request.generation;
        let input = match request.place {
            Place::Screen(_) => Input::Screen {
                generation,
                screen: (found.map_err(|error| format!("{error:?}"))).and_then(screen_in),
            },
            place => Input::Page {
                generation,
                place,
                page: found.unwrap_or_else(|error| {
                    // A run without a log has no history, but live events may follow.
                    log::debug!("{error:?}");
                    Page {
                        is_first: true,
                        is_last: true,
                        ..Page::default()
                    }
                }),
            },
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
}

fn read_page(access: &LogAccess, request: &PageRequest) -> Result<Page> {
    let (row, place) = (&request.row, request.place);
    let mut pages = LogPages::new(&access.data.run(&row.execution_id));
    let is_selected = |envelope: &Envelope| match (place, &envelope.event) {
        (Place::Screen(_), TdEvent::ScreenSnapshot { pane, .. }) => Some(pane) == row.pane.as_ref(),
        (Place::Screen(_), _) | (_, TdEvent::ScreenUpdate { .. }) => false,
        (_, event) => belongs_to_row(row, event),
    };
    let query = PageQuery {
        records_max: match place {
            Place::Last | Place::Until(_) => EVENTS_FOLLOWED,
            Place::Before(_) | Place::After(_) => PAGE_EVENTS,
            Place::Screen(_) => 1,
        },
        bytes_max: BYTES_MAX / 4,
        selects: &is_selected,
        is_stopped: &|| access.is_over(request.generation),
    };
    match place {
        Place::Last => pages.last(&query),
        Place::Before(seq) => pages.before(seq, &query),
        Place::After(seq) => pages.after(seq, &query),
        Place::Until(ts) | Place::Screen(ts) => pages.until(ts, &query),
    }
}

/// Returns the last screen of a page.
fn screen_in(page: Page) -> std::result::Result<Box<Screen>, String> {
    let last = page.events.into_iter().next_back();
    let Some(TdEvent::ScreenSnapshot { height, rows, .. }) = last.map(|envelope| envelope.event)
    else {
        return Err("no screen is kept from this time".to_owned());
    };
    // A snapshot has no cursor; this one keeps the last row visible.
    let cursor = Cursor {
        x: 0,
        y: height.saturating_sub(1),
    };
    let styles = Styles::default();
    Ok(Box::new(screen_of(height, cursor, &rows, &styles)))
}

pub(super) fn scan(access: &LogAccess, requests: &Receiver<ScanRequest>, inputs: &InputSender) {
    while let Some(request) = access.next(requests) {
        let input = match request {
            ScanRequest::Lines(scan) => Input::Scanned(Box::new(lines(access, *scan, inputs))),
            ScanRequest::Timeline { since } => Input::States(states(access, since)),
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
}

fn lines(access: &LogAccess, mut scan: Scan, inputs: &InputSender) -> Scan {
    let run = access.data.run(&scan.row.execution_id);
    let generation = access.generation.load(Ordering::Relaxed);
    let log = match LogReader::open(&run, Query::all()) {
        Ok(log) => log,
        Err(error) => {
            log::debug!("{error:?}");
            scan.end(ScanState::Failed);
            return scan;
        }
    };
    for record in log {
        scan.take(&record.envelope);
        if scan.read.is_multiple_of(SCAN_STEP) {
            if access.is_over(generation) {
                scan.end(ScanState::Failed);
                return scan;
            }
            let (id, read) = (scan.id(), scan.read);
            // If the UI is busy, it shows the next number.
            let _ = inputs.try_send(Input::Progress { id, read });
        }
    }
    scan.end(ScanState::Done);
    scan
}

/// The events that change the state of a row.
const STATES: [EventKind; 14] = [
    EventKind::AgentState,
    EventKind::AgentRegistered,
    EventKind::AgentCompleted,
    EventKind::AgentFailed,
    EventKind::TurnCompleted,
    EventKind::SessionStarted,
    EventKind::SessionEnded,
    EventKind::PaneOpened,
    EventKind::PaneClosed,
    EventKind::ExecutionStarted,
    EventKind::ExecutionCompleted,
    EventKind::LoopStarted,
    EventKind::LoopCompleted,
    EventKind::Error,
];

/// Folds the states of all rows since a time.
fn states(access: &LogAccess, since: Timestamp) -> Bands {
    let mut history = Bands::default();
    let Ok(list) = access.data.runs(access.clock.wall()) else {
        return history;
    };
    for run in list.runs {
        if is_stopped(&access.stop) {
            break;
        }
        let query = (STATES.iter()).fold(Query::all(), |query, kind| query.kind(kind.as_str()));
        let log = match LogReader::open(&run.directory, query.since(since)) {
            Ok(log) => log,
            Err(error) => {
                log::debug!("{error:?}");
                continue;
            }
        };
        let mut board = Board::default();
        for record in log {
            let envelope = record.envelope;
            for key in board.apply(&envelope) {
                if let Some(row) = board.row(&key) {
                    note(&mut history, row, envelope.ts);
                }
            }
        }
    }
    history
}
