//! The threads that read for the UI: from the observer its board, the live events of the selected row's run
//! and the screen of the selected pane; from the logs pages around the reader, whole histories for searches,
//! filters and the timeline, and the runs of the history.
//!
//! Each thread ends when the stop channel closes. Live events go through an inbox that keeps the latest
//! events and counts the dropped ones, so that a slow UI blocks no thread.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};

use super::cells::StyledText;
use super::effect::{
    CaptureRequest, CapturedPane, Connection, FollowedRun, Input, PageRequest, Place, ScanRequest,
    Screen,
};
use super::lines::{BYTES_MAX, EVENTS_FOLLOWED, belongs_to_row, pane_line, weight};
use super::queues::{InputSender, Wake};
use super::search::{Scan, ScanState};
use super::timeline::{Bands, note};
use crate::api::{EventSource, Observer, Unavailable};
use crate::board::{Board, Row};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Cursor, Envelope, EventKind, LogGapRange, ScreenRow, Styles, TdEvent};
use crate::face::lines::styles_of;
use crate::feed::{Next, ended_rows};
use crate::history::{DataDir, LogPages, LogReader, Page, PageQuery, Query, RunStatus};
use crate::thread::{Stop, is_stopped, lock};
use crate::timestamp::Timestamp;

/// The longest time for which the observer holds a request for changes. After twice this time without an
/// observer, the UI reports it.
const LONG_POLL: Duration = Duration::from_secs(1);

/// The pause before another attempt to reach the observer, and between two captures of a screen.
const PAUSE: Duration = Duration::from_millis(200);

/// The pause between two boards, which limits redraws while many rows change, and the time within which the
/// live thread notices a new selection, whose page is shown before.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// The pause in which live events accumulate. On a busy machine, a thread that wakes for each event delays
/// the other threads of the UI, and then a key waits as well.
const BATCH_PAUSE: Duration = Duration::from_millis(25);

/// Live events that are older than this are skipped, because the UI shows the present.
const BEHIND_MICROS: i64 = 3_000_000;

/// Finds the running observer; the error is the reason why there is none.
pub(super) type FindObserver = Arc<dyn Fn() -> std::result::Result<Observer, String> + Send + Sync>;

/// What the threads share.
#[derive(Clone)]
pub(super) struct Access {
    pub find: FindObserver,
    pub data: DataDir,
    pub clock: Clock,
    pub stop: Stop,
    /// The latest generation. Results for earlier generations are discarded.
    pub generation: Arc<AtomicU64>,
}

impl Access {
    /// Waits; returns false if the UI has ended.
    fn pause(&self, time: Duration) -> bool {
        select_biased! {
            recv(self.stop) -> _ => false,
            recv(self.clock.after(time)) -> _ => true,
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

/// Reports the board at each change.
pub(super) fn read_board(access: &Access, inputs: &InputSender) {
    let mut etag: Option<String> = None;
    let mut lost_since = None;
    while !is_stopped(&access.stop) {
        let observer = (access.find)();
        let found = observer.map(|observer| observer.board(etag.as_deref(), LONG_POLL));
        let why = match found {
            Ok(Ok(changed)) => {
                lost_since = None;
                let Some((rows, version)) = changed else {
                    continue;
                };
                etag = version;
                if inputs.send(Input::Board(rows)).is_err() || !access.pause(SHORT_PAUSE) {
                    return;
                }
                continue;
            }
            Ok(Err(error)) if !error.is_gone() => format!("{error:?}"),
            Ok(Err(_)) => "the observer has ended: td-observe start begins another".to_owned(),
            Err(why) => why,
        };
        etag = None;
        let now = access.clock.now();
        let since = *lost_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= 2 * LONG_POLL {
            let lost = Input::Connection(Connection::Lost(why));
            if inputs.send(lost).is_err() {
                return;
            }
        }
        if !access.pause(PAUSE) {
            return;
        }
    }
}

/// Followed events that the UI has not handled yet.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<InboxState>);

#[derive(Debug, Default)]
struct InboxState {
    stream: u64,
    /// The events, each with the number of missed events before it.
    events: VecDeque<(u64, Envelope)>,
    bytes: usize,
}

impl Inbox {
    /// Adds an event after `missed` other ones. Beyond the limits, the oldest events are dropped and counted.
    fn add(&self, stream: u64, missed: u64, envelope: Envelope) {
        let mut state = lock(&self.0);
        if state.stream != stream {
            *state = InboxState {
                stream,
                ..InboxState::default()
            };
        }
        state.bytes += weight(&envelope);
        state.events.push_back((missed, envelope));
        while (state.events.len() > EVENTS_FOLLOWED || state.bytes > BYTES_MAX)
            && state.events.len() > 1
            && let Some((missed, dropped)) = state.events.pop_front()
        {
            state.bytes -= weight(&dropped);
            if let Some((before, _)) = state.events.front_mut() {
                *before += missed + dropped.n;
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).events.is_empty()
    }

    /// Takes the oldest events up to the next missed ones, about `bytes` of them, as one input; `None` if the
    /// inbox is empty.
    pub fn take(&self, bytes: usize) -> Option<Input> {
        let mut state = lock(&self.0);
        let (missed, first) = state.events.pop_front()?;
        let mut taken = weight(&first);
        let mut events = vec![first];
        while taken < bytes
            && state.events.front().is_some_and(|(missed, _)| *missed == 0)
            && let Some((_, next)) = state.events.pop_front()
        {
            taken += weight(&next);
            events.push(next);
        }
        state.bytes -= taken;
        Some(Input::Live {
            stream: state.stream,
            missed,
            events,
        })
    }
}

/// The stream of the selected run.
struct LiveStream {
    followed: FollowedRun,
    /// `None` until the observer is found.
    source: Option<Box<dyn EventSource>>,
    /// The number of the last event.
    last: u64,
    /// The events after the last one that are missing so far.
    missed: u64,
    /// True if the next events are skipped, because the UI shows the present.
    skips: bool,
    /// True while events are read without waiting.
    is_batching: bool,
}

impl LiveStream {
    fn new(followed: FollowedRun) -> Self {
        Self {
            last: followed.after,
            followed,
            source: None,
            missed: 0,
            skips: false,
            is_batching: false,
        }
    }

    /// Returns the number of missing events before an event that follows the last one.
    fn missed_before(&mut self, envelope: &Envelope) -> u64 {
        let mut missed = std::mem::take(&mut self.missed);
        self.skips = false;
        if let Some(numbers) = LogGapRange::of(envelope) {
            let first = (numbers.first).min((numbers.last + 1).saturating_sub(envelope.n));
            missed += first.saturating_sub(self.last + 1);
            self.last = numbers.last;
        }
        missed
    }
}

/// Reports the next events of the run that was selected last, and then its live ones.
pub(super) fn read_live(
    access: &Access,
    selected: &Receiver<FollowedRun>,
    inbox: &Inbox,
    wake: &Wake,
    inputs: &InputSender,
) {
    let mut current: Option<LiveStream> = None;
    while !is_stopped(&access.stop) {
        if let Some(followed) = selected.try_iter().last() {
            current = Some(LiveStream::new(followed));
        }
        let Some(run) = &mut current else {
            current = access.next(selected).map(LiveStream::new);
            continue;
        };
        let Some(source) = &mut run.source else {
            let after = (!run.skips).then_some(run.last);
            let execution = &run.followed.execution;
            let opened = (access.find)().and_then(|observer| {
                let opened = observer.events_of(execution, after, &access.clock);
                opened.map_err(|error| format!("{error:?}"))
            });
            match opened {
                Ok(opened) => run.source = Some(opened),
                Err(why) => {
                    log::debug!("{why}");
                    access.pause(PAUSE);
                }
            }
            continue;
        };
        let wait = if run.is_batching {
            Duration::ZERO
        } else {
            SHORT_PAUSE
        };
        match source.next(access.clock.now() + wait) {
            Ok(Next::Event(envelope)) => {
                run.is_batching = true;
                let behind = access
                    .clock
                    .wall()
                    .micros()
                    .saturating_sub(envelope.ts.micros());
                let envelope = envelope.into_envelope();
                let missed = run.missed_before(&envelope);
                inbox.add(run.followed.stream, missed, envelope);
                wake.notify();
                if behind > BEHIND_MICROS {
                    // The log has the skipped events, which are counted by their numbers.
                    run.skips = true;
                    run.source = None;
                }
            }
            Ok(Next::Missed(missed)) => {
                run.missed += missed;
                run.last += missed;
            }
            // The observer of this process ends with the UI.
            Ok(Next::End) => current = None,
            Ok(Next::Timeout) if run.is_batching => {
                run.is_batching = false;
                access.pause(BATCH_PAUSE);
            }
            Ok(Next::Timeout) => {}
            Err(Unavailable::Refused(why)) => {
                let why = Input::Message(format!("the observer refuses: {why}"));
                if inputs.send(why).is_err() {
                    return;
                }
                current = None;
            }
            Err(Unavailable::Broken(cause)) => {
                log::debug!("the observer is gone: {cause}");
                run.source = None;
                access.pause(PAUSE);
            }
        }
    }
}

/// Reports the screen of a pane repeatedly while it is shown.
pub(super) fn read_screen(
    access: &Access,
    requests: &Receiver<CaptureRequest>,
    inputs: &InputSender,
) {
    let mut current: Option<CaptureRequest> = None;
    let mut last: Option<Screen> = None;
    loop {
        let pane = (current.as_ref())
            .and_then(|request| Some((request.generation, request.pane.as_ref()?)));
        let Some((generation, pane)) = pane else {
            select_biased! {
                recv(access.stop) -> _ => return,
                recv(requests) -> captured => (current, last) = (captured.ok(), None),
            }
            continue;
        };
        let screen = capture(access, pane);
        let is_failed = screen.is_err();
        if screen.as_ref().ok() != last.as_ref() || is_failed {
            last = screen.as_ref().ok().cloned();
            let input = Input::Screen {
                generation,
                screen: screen.map(Box::new),
            };
            if inputs.send(input).is_err() {
                return;
            }
        }
        if is_failed {
            current = None;
            continue;
        }
        select_biased! {
            recv(access.stop) -> _ => return,
            recv(requests) -> captured => (current, last) = (captured.ok(), None),
            recv(access.clock.after(PAUSE)) -> _ => {}
        }
    }
}

fn capture(
    access: &Access,
    CapturedPane { pane, server }: &CapturedPane,
) -> std::result::Result<Screen, String> {
    let screen = (access.find)()?.screen(pane, server.as_deref(), &access.stop)?;
    Ok(screen_of(
        screen.height,
        screen.cursor,
        &screen.rows,
        &screen.styles,
    ))
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

pub(super) fn read_pages(access: &Access, requests: &Receiver<PageRequest>, inputs: &InputSender) {
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

fn read_page(access: &Access, request: &PageRequest) -> Result<Page> {
    let (row, place) = (&request.row, request.place);
    let mut pages = LogPages::new(&access.data.run(&row.execution_id));
    let is_selected = |envelope: &Envelope| match (place, &envelope.event) {
        (Place::Screen(_), TdEvent::ScreenSnapshot { pane, .. }) => Some(pane) == row.pane.as_ref(),
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

pub(super) fn scan(access: &Access, requests: &Receiver<ScanRequest>, inputs: &InputSender) {
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

fn lines(access: &Access, mut scan: Scan, inputs: &InputSender) -> Scan {
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
        // Now and then, the scan reports its progress, and checks for cancellation.
        if scan.read.is_multiple_of(20_000) {
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

/// Folds the states of all rows since a time.
fn states(access: &Access, since: Timestamp) -> Bands {
    let mut history = Bands::default();
    let Ok(list) = access.data.runs(access.clock.wall()) else {
        return history;
    };
    // The events that change the state of a row.
    let states = [
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
    let query = Query::all().since(since);
    let query = (states.iter()).fold(query, |query, kind| query.kind(kind.as_str()));
    for run in list.runs {
        if is_stopped(&access.stop) {
            break;
        }
        let log = match LogReader::open(&run.directory, query.clone()) {
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

/// The pause between two lists of the history.
const HISTORY_PAUSE: Duration = Duration::from_secs(30);

/// The maximum number of runs to list, the latest first; runs on the board are among them.
const RUNS_MAX: usize = 1_000;

/// Reports the rows of the runs that have ended, the latest first, whenever they change.
pub(super) fn read_history(access: &Access, inputs: &InputSender) {
    let mut last = None;
    loop {
        let begun = access.clock.now();
        let rows = ended(access);
        if is_stopped(&access.stop) {
            return;
        }
        if last.as_ref() != Some(&rows) {
            last = Some(rows.clone());
            if inputs.send(Input::History(rows)).is_err() {
                return;
            }
        }
        let took = access.clock.now().saturating_duration_since(begun);
        select_biased! {
            recv(access.stop) -> _ => return,
            // Listing many runs takes at most 1 % of the time.
            recv(access.clock.after(HISTORY_PAUSE.max(took * 100))) -> _ => {}
        }
    }
}

fn ended(access: &Access) -> Vec<Row> {
    let is_over = || is_stopped(&access.stop);
    let list = match access
        .data
        .runs_unless_cancelled(access.clock.wall(), &is_over)
    {
        Ok(list) => list,
        Err(error) => {
            log::debug!("{error:?}");
            return Vec::new();
        }
    };
    let mut runs = list.runs;
    runs.retain(|run| run.state != RunStatus::Running);
    runs.sort_by_key(|run| Reverse(run.last_event));
    let rows = runs.iter().take(RUNS_MAX).flat_map(ended_rows);
    rows.take(RUNS_MAX).collect()
}
