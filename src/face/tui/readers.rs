//! The threads that read for the UI: from the observer its board, the live events of the selected row's run
//! and the screen of the selected pane; from the logs pages around the reader, whole histories for searches,
//! filters and the timeline, and the runs of the history.
//!
//! Each thread ends when the stop channel closes. A slow UI blocks only the thread of the live events, which
//! then skips old ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use super::effect::{
    CaptureRequest, Connection, FollowedRun, Input, PageRequest, Place, ScanRequest, Screen,
};
use super::queues::InputSender;
use super::search::{Scan, ScanState};
use super::window::{BYTES_MAX, EVENTS_FOLLOWED};
use crate::api::FindObserver;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Cursor, Envelope, ScreenRow, Styles, TdEvent};
use crate::face::lines::styles_of;
use crate::face::run_stream::{RunItem, RunStream};
use crate::face::styled_text::StyledText;
use crate::face::view_lines::{belongs_to_row, pane_line, weight};
use crate::feed::{bands_since, latest_ended};
use crate::history::{DataDir, LogPages, LogReader, Page, PageQuery, Query};
use crate::thread::{Stop, is_stopped, lock};

/// The longest time for which the observer holds a request for changes. After twice this time without an
/// observer, the UI reports it.
const LONG_POLL: Duration = Duration::from_secs(1);

/// The pause before another attempt to reach the observer, and between two captures of a screen.
const PAUSE: Duration = Duration::from_millis(200);

/// The time after a key in which somebody looks at the UI.
const VIEW: Duration = Duration::from_secs(60);

/// The pause between two boards, which limits redraws while many rows change, and the time within which the
/// live thread notices a new selection, whose page is shown before.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// The size of a batch of live events: about a millisecond's work for the UI.
const LIVE_BYTES: usize = 64 * 1024;

/// What the threads share.
#[derive(Clone)]
pub(super) struct Access {
    pub find: FindObserver,
    pub data: DataDir,
    pub clock: Clock,
    pub stop: Stop,
    /// The latest generation. Results for earlier generations are discarded.
    pub generation: Arc<AtomicU64>,
    /// Receives the reports.
    pub inputs: InputSender,
    /// The time of the last key.
    pub used_at: Arc<Mutex<Instant>>,
}

impl Access {
    /// Returns true if somebody looks at the UI: he has pressed a key within the last minute, as for a tmux client.
    fn is_used(&self) -> bool {
        self.clock.now() < *lock(&self.used_at) + VIEW
    }

    /// Waits, unless the UI has ended.
    fn pause(&self, time: Duration) {
        select_biased! {
            recv(self.stop) -> _ => {}
            recv(self.clock.after(time)) -> _ => {}
        }
    }

    /// Waits for the next request; `None` at the end of the UI.
    fn next<T>(&self, requests: &Receiver<T>) -> Option<T> {
        select_biased! {
            recv(self.stop) -> _ => None,
            recv(requests) -> request => request.ok(),
        }
    }

    fn is_over(&self, generation: u64) -> bool {
        is_stopped(&self.stop) || self.generation.load(Ordering::Relaxed) != generation
    }
}

impl Access {
    /// Reports the board at each change. Returns at the end of the UI.
    pub fn read_board(&self) -> Option<()> {
        let mut etag: Option<String> = None;
        let mut lost_since = None;
        while !is_stopped(&self.stop) {
            let observer = (self.find)();
            let why = match observer.map(|observer| observer.board(etag.as_deref(), LONG_POLL)) {
                Ok(Ok(changed)) => {
                    lost_since = None;
                    if let Some((rows, version)) = changed {
                        etag = version;
                        self.inputs.send(Input::Board(rows)).ok()?;
                        self.pause(SHORT_PAUSE);
                    }
                    continue;
                }
                Ok(Err(error)) if !error.is_gone() => format!("{error:?}"),
                Ok(Err(_)) => "the observer has ended: td-observe start begins another".to_owned(),
                Err(why) => why,
            };
            etag = None;
            let now = self.clock.now();
            let since = *lost_since.get_or_insert(now);
            if now.saturating_duration_since(since) >= 2 * LONG_POLL {
                let lost = Input::Connection(Connection::Lost(why));
                self.inputs.send(lost).ok()?;
            }
            self.pause(PAUSE);
        }
        None
    }
}

/// The live events of the selected run, in batches.
struct LiveStream {
    /// Identifies the stream.
    number: u64,
    run: RunStream,
    /// The events to report next, their size, and the number of missing ones before them.
    batch: Vec<Envelope>,
    bytes: usize,
    missed_before: u64,
}

impl LiveStream {
    fn new(access: &Access, followed: &FollowedRun) -> Self {
        let (execution, after) = (&followed.execution, followed.after);
        Self {
            number: followed.stream,
            run: RunStream::new((&access.find, &access.clock), execution, after, 0),
            batch: Vec::new(),
            bytes: 0,
            missed_before: 0,
        }
    }

    /// Adds the next event to the batch; returns `None` at the end of the UI.
    fn take(&mut self, envelope: Envelope, missed: u64, events: &InputSender) -> Option<()> {
        if missed > 0 {
            self.send(events)?;
            self.missed_before = missed;
        }
        self.bytes += weight(&envelope);
        self.batch.push(envelope);
        if self.bytes < LIVE_BYTES {
            Some(())
        } else {
            self.send(events)
        }
    }

    /// Reports the batch; returns `None` at the end of the UI.
    fn send(&mut self, events: &InputSender) -> Option<()> {
        if self.batch.is_empty() {
            return Some(());
        }
        self.bytes = 0;
        let live = Input::Live {
            stream: self.number,
            missed: std::mem::take(&mut self.missed_before),
            events: std::mem::take(&mut self.batch),
        };
        events.send(live).ok()
    }
}

impl Access {
    /// Reports the next events of the run that was selected last, and then its live ones, in batches. Returns at
    /// the end of the UI.
    pub fn read_live(&self, selected: &Receiver<FollowedRun>, events: &InputSender) -> Option<()> {
        let mut current: Option<LiveStream> = None;
        while !is_stopped(&self.stop) {
            if let Some(followed) = selected.try_iter().last() {
                current = Some(LiveStream::new(self, &followed));
            }
            let Some(live) = &mut current else {
                let followed = self.next(selected);
                current = followed.map(|followed| LiveStream::new(self, &followed));
                continue;
            };
            // The events of a batch are read without waiting.
            let wait = if live.batch.is_empty() {
                SHORT_PAUSE
            } else {
                Duration::ZERO
            };
            let item = live.run.next(self.clock.now() + wait);
            if !matches!(item, RunItem::Event { .. }) {
                let pauses = !live.batch.is_empty();
                live.send(events)?;
                if pauses {
                    // Live events accumulate. On a busy machine, a thread that wakes for each event delays the
                    // other threads of the UI, and then a key waits as well.
                    self.pause(SHORT_PAUSE / 4);
                }
            }
            match item {
                RunItem::Event {
                    envelope,
                    missed,
                    skips,
                } => {
                    live.take(*envelope, missed, events)?;
                    if skips {
                        live.send(events)?;
                    }
                }
                RunItem::Nothing => {}
                RunItem::Unavailable(why) => {
                    log::debug!("{why}");
                    self.pause(PAUSE);
                }
                RunItem::Refused(why) => {
                    let why = Input::Message(format!("the observer refuses: {why}"));
                    self.inputs.send(why).ok()?;
                    current = None;
                }
                // The observer of this process ends with the UI.
                RunItem::End => current = None,
            }
        }
        None
    }

    /// Reports the screen of a pane repeatedly while it is shown.
    pub fn read_screen(&self, requests: &Receiver<CaptureRequest>) -> Option<()> {
        let mut current: Option<CaptureRequest> = None;
        let mut last: Option<Screen> = None;
        loop {
            let pause = match &current {
                Some(CaptureRequest { pane: Some(_), .. }) => self.clock.after(PAUSE),
                _ => never(),
            };
            select_biased! {
                recv(self.stop) -> _ => return None,
                recv(requests) -> request => (current, last) = (request.ok(), None),
                recv(pause) -> _ => {}
            }
            // The last request replaces those before it.
            if !requests.is_empty() {
                continue;
            }
            let Some(CaptureRequest {
                generation,
                pane: Some((pane, server)),
            }) = current.clone()
            else {
                continue;
            };
            let screen = (self.find)()
                .and_then(|observer| {
                    let is_viewed = self.is_used();
                    observer.screen(&pane, server.as_deref(), is_viewed, &self.stop)
                })
                .map(|view| screen_of(view.height, view.cursor, &view.rows, &view.styles));
            let shown = screen.as_ref().ok().cloned();
            if shown.is_none() {
                current = None;
            } else if shown == last {
                continue;
            }
            last = shown;
            let screen = screen.map(Box::new);
            let input = Input::Screen { generation, screen };
            self.inputs.send(input).ok()?;
        }
    }

    pub fn read_pages(&self, requests: &Receiver<PageRequest>) -> Option<()> {
        while let Some(request) = self.next(requests) {
            if self.is_over(request.generation) {
                continue;
            }
            let found = self.read_page(&request);
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
            self.inputs.send(input).ok()?;
        }
        None
    }

    fn read_page(&self, request: &PageRequest) -> Result<Page> {
        let (row, place) = (&request.row, request.place);
        let mut pages = LogPages::new(&self.data.run(&row.execution_id));
        let is_selected = |envelope: &Envelope| match (place, &envelope.event) {
            (Place::Screen(_), TdEvent::ScreenSnapshot { pane, .. }) => {
                Some(pane) == row.pane.as_ref()
            }
            (Place::Screen(_), _) | (_, TdEvent::ScreenUpdate { .. }) => false,
            (_, event) => belongs_to_row(row, event),
        };
        let query = PageQuery {
            records_max: if matches!(place, Place::Screen(_)) {
                1
            } else {
                EVENTS_FOLLOWED
            },
            bytes_max: BYTES_MAX / 4,
            selects: &is_selected,
            is_stopped: &|| self.is_over(request.generation),
        };
        match place {
            Place::Last => pages.last(&query),
            Place::Before(seq) => pages.before(seq, &query),
            Place::After(seq) => pages.after(seq, &query),
            Place::Until(ts) | Place::Screen(ts) => pages.until(ts, &query),
        }
    }

    pub fn scan(&self, requests: &Receiver<ScanRequest>) -> Option<()> {
        while let Some(request) = self.next(requests) {
            self.inputs
                .send(match request {
                    ScanRequest::Lines(scan) => Input::Scanned(Box::new(self.lines(*scan))),
                    ScanRequest::Timeline { since } => {
                        Input::States(bands_since(&self.data, (since, self.clock.wall()), &|| {
                            is_stopped(&self.stop)
                        }))
                    }
                })
                .ok()?;
        }
        None
    }

    fn lines(&self, mut scan: Scan) -> Scan {
        let run = self.data.run(&scan.row.execution_id);
        let generation = self.generation.load(Ordering::Relaxed);
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
            // Now and then, the scan reports its progress, and checks for cancellation.
            if scan.read.is_multiple_of(20_000) {
                if self.is_over(generation) {
                    scan.end(ScanState::Failed);
                    return scan;
                }
                let (id, read) = (scan.id(), scan.read);
                // If the UI is busy, it shows the next number.
                let _ = self.inputs.inputs.try_send(Input::Progress { id, read });
                self.inputs.wake.notify();
            }
        }
        scan.end(ScanState::Done);
        scan
    }

    /// Reports the rows of the runs that have ended, the latest first, whenever they change.
    pub fn read_history(&self) -> Option<()> {
        let mut last = None;
        while !is_stopped(&self.stop) {
            let begun = self.clock.now();
            let rows = latest_ended(&self.data, self.clock.wall(), &|| is_stopped(&self.stop));
            if last.as_ref() != Some(&rows) {
                last = Some(rows.clone());
                self.inputs.send(Input::History(rows)).ok()?;
            }
            // Every half minute; listing many runs takes at most 1 % of the time.
            let took = self.clock.now().saturating_duration_since(begun);
            self.pause((30 * LONG_POLL).max(took * 100));
        }
        None
    }
}

/// Converts rows of text and their styles to a screen.
pub(super) fn screen_of(
    height: u32,
    cursor: Cursor,
    rows: &[ScreenRow],
    styles: &Styles,
) -> Screen {
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let mut lines = vec![StyledText::default(); usize::from(small(height)).min(1_000)];
    for row in rows {
        if let Some(line) = lines.get_mut(row.row as usize) {
            *line = pane_line(&row.text, styles_of(styles, row.row));
        }
    }
    Screen {
        cursor: (small(cursor.x), small(cursor.y)),
        rows: lines,
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
