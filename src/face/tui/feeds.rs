//! The threads that read from the observer: `td-tui-board` reads its board, `td-tui-live` the events of the
//! selected row's run, `td-tui-screen` the screen of the selected pane.
//!
//! Each thread ends when the stop channel closes. Live events go through an inbox that keeps the latest
//! events and counts the dropped ones, so that a slow UI blocks no thread.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};

use super::super::lines::LineStyles;
use super::content::pane_line;
use super::effect::{CaptureRequest, CapturedPane, Connection, FollowedRun, Input, Screen};
use super::painted::StyledText;
use super::wake::{InputSender, Wake};
use super::window::{EVENTS_FOLLOWED, weight};
use crate::api::{EventReader, NoItem, Streamed, get, get_board, percent_encoded};
use crate::clock::Clock;
use crate::event::{Cursor, Envelope, ScreenRow, Styles};
use crate::thread::{Stop, is_stopped, lock};

/// The longest time for which the observer holds a request for changes.
const LONG_POLL: Duration = Duration::from_secs(1);

/// The pause between two boards: limits redraws while many rows change.
const BOARD_PAUSE: Duration = Duration::from_millis(100);

/// The pause before another attempt to reach the observer.
const RETRY: Duration = Duration::from_millis(200);

/// The time without an observer after which the UI reports it.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// The pause between two captures of a screen.
const SCREEN_PAUSE: Duration = Duration::from_millis(250);

/// The time within which the live thread notices a new selection.
const SELECTION_CHECK: Duration = Duration::from_millis(20);

/// The pause in which live events accumulate. On a busy machine, a thread that wakes for each event delays
/// the other threads of the UI, and then a key waits as well.
const BATCH_PAUSE: Duration = Duration::from_millis(25);

/// The maximum number of bytes of live events that wait for the UI.
const INBOX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Live events that are older than this are skipped, because the UI shows the present.
const BEHIND_MICROS: i64 = 3_000_000;

/// Finds the socket of the running observer; the error is the reason why there is none.
pub(super) type FindObserver = Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>;

/// Access to the observer, for the threads that read from it.
#[derive(Clone)]
pub(super) struct Feed {
    pub find: FindObserver,
    pub clock: Clock,
    pub stop: Stop,
}

impl Feed {
    /// Waits; returns false if the UI has ended.
    fn pause(&self, time: Duration) -> bool {
        select_biased! {
            recv(self.stop) -> _ => false,
            recv(self.clock.after(time)) -> _ => true,
        }
    }
}

/// Reports the board at each change.
pub(super) fn read_board(feed: &Feed, inputs: &InputSender) {
    let mut etag: Option<String> = None;
    let mut lost_since = None;
    while !is_stopped(&feed.stop) {
        let socket = (feed.find)();
        let found = socket.map(|socket| get_board(&socket, etag.as_deref(), LONG_POLL));
        let why = match found {
            Ok(Ok(changed)) => {
                lost_since = None;
                let Some((rows, version)) = changed else {
                    continue;
                };
                etag = version;
                if inputs.send(Input::Board(rows)).is_err() || !feed.pause(BOARD_PAUSE) {
                    return;
                }
                continue;
            }
            Ok(Err(error)) if !error.is_gone() => format!("{error:?}"),
            Ok(Err(_)) => "the observer has ended: td-observe start begins another".to_owned(),
            Err(why) => why,
        };
        etag = None;
        let now = feed.clock.now();
        let since = *lost_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= LOST_AFTER {
            let lost = Input::Connection(Connection::Lost(why));
            if inputs.send(lost).is_err() {
                return;
            }
        }
        if !feed.pause(RETRY) {
            return;
        }
    }
}

/// Live events that the UI has not handled yet.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<InboxState>);

#[derive(Debug, Default)]
struct InboxState {
    generation: u64,
    events: VecDeque<Envelope>,
    bytes: usize,
    missed: u64,
}

impl Inbox {
    /// Adds an event. Beyond the limits, the oldest events are dropped and counted.
    fn add(&self, generation: u64, envelope: Envelope) {
        let mut state = lock(&self.0);
        if state.generation != generation {
            *state = InboxState {
                generation,
                ..InboxState::default()
            };
        }
        state.bytes += weight(&envelope);
        state.events.push_back(envelope);
        while (state.events.len() > EVENTS_FOLLOWED || state.bytes > INBOX_BYTES_MAX)
            && state.events.len() > 1
            && let Some(dropped) = state.events.pop_front()
        {
            state.bytes -= weight(&dropped);
            state.missed += dropped.n;
        }
    }

    pub fn is_empty(&self) -> bool {
        let state = lock(&self.0);
        state.events.is_empty()
    }

    /// Takes the oldest events, about `bytes` of them, as one input; `None` if the inbox is empty.
    pub fn take(&self, bytes: usize) -> Option<Input> {
        let mut state = lock(&self.0);
        let mut taken = 0;
        let is_taken = |envelope: &&Envelope| {
            let has_room = taken < bytes;
            taken += weight(envelope);
            has_room
        };
        let count = state.events.iter().take_while(is_taken).count();
        let events: Vec<Envelope> = state.events.drain(..count).collect();
        state.bytes -= events.iter().map(weight).sum::<usize>();
        (!events.is_empty()).then(|| Input::Live {
            generation: state.generation,
            missed: std::mem::take(&mut state.missed),
            events,
        })
    }
}

/// The stream of the selected run.
struct LiveStream {
    followed: FollowedRun,
    /// `None` until the observer is found.
    reader: Option<EventReader>,
    /// True if the UI knows that events of this run arrive.
    is_reported: bool,
    /// True while events are read without waiting.
    is_batching: bool,
}

impl LiveStream {
    fn new(followed: FollowedRun) -> Self {
        Self {
            followed,
            reader: None,
            is_reported: false,
            is_batching: false,
        }
    }
}

/// Reports the live events of the run that was selected last.
pub(super) fn read_live(
    feed: &Feed,
    selected: &Receiver<FollowedRun>,
    inbox: &Inbox,
    wake: &Wake,
    inputs: &InputSender,
) {
    let mut current: Option<LiveStream> = None;
    loop {
        if is_stopped(&feed.stop) {
            return;
        }
        if let Some(followed) = selected.try_iter().last() {
            current = Some(LiveStream::new(followed));
        }
        let Some(run) = &mut current else {
            select_biased! {
                recv(feed.stop) -> _ => return,
                recv(selected) -> followed => current = followed.ok().map(LiveStream::new),
            }
            continue;
        };
        let Some(reader) = &mut run.reader else {
            match (feed.find)() {
                Ok(socket) => {
                    let path = format!(
                        "/api/v1/events?execution={}",
                        percent_encoded(&run.followed.execution)
                    );
                    run.reader = Some(EventReader::new(&socket, path, &feed.clock));
                }
                Err(_) if !feed.pause(RETRY) => return,
                Err(_) => {}
            }
            continue;
        };
        let wait = match run.is_batching {
            true => Duration::ZERO,
            false => SELECTION_CHECK,
        };
        let next = reader.next(feed.clock.now() + wait);
        let is_open = matches!(next, Ok(_) | Err(NoItem::Timeout));
        let generation = run.followed.generation;
        if is_open && !run.is_reported {
            run.is_reported = true;
            if inputs.send(Input::Followed { generation }).is_err() {
                return;
            }
        }
        match next {
            Ok(Streamed::Event(envelope)) => {
                run.is_batching = true;
                let now = feed.clock.wall().micros();
                let behind = now.saturating_sub(envelope.ts.micros());
                inbox.add(generation, *envelope);
                wake.notify();
                if behind > BEHIND_MICROS && run.is_reported {
                    // The skipped events are in the log, and the UI counts them by their numbers.
                    *run = LiveStream::new(run.followed.clone());
                }
            }
            // The UI notices the gap in the numbers.
            Ok(Streamed::Missed(_)) => {}
            Err(NoItem::Timeout) if run.is_batching => {
                run.is_batching = false;
                select_biased! {
                    recv(feed.stop) -> _ => return,
                    recv(selected) -> followed => current = followed.ok().map(LiveStream::new),
                    recv(feed.clock.after(BATCH_PAUSE)) -> _ => {}
                }
            }
            Err(NoItem::Timeout) => {}
            Err(NoItem::Refused(why)) => {
                let why = Input::Message(format!("the observer refuses: {why}"));
                if inputs.send(why).is_err() {
                    return;
                }
                current = None;
            }
            Err(NoItem::Broken(cause)) => {
                log::debug!("the observer is gone: {cause}");
                run.is_reported = false;
                match (feed.find)() {
                    Ok(socket) => reader.move_to(&socket),
                    Err(why) => log::debug!("{why}"),
                }
                if !feed.pause(RETRY) {
                    return;
                }
            }
        }
    }
}

/// Reports the screen of a pane repeatedly while it is shown.
pub(super) fn read_screen(feed: &Feed, requests: &Receiver<CaptureRequest>, inputs: &InputSender) {
    let mut current: Option<CaptureRequest> = None;
    let mut last: Option<Screen> = None;
    loop {
        let pane = (current.as_ref())
            .and_then(|request| Some((request.generation, request.pane.as_ref()?)));
        let Some((generation, pane)) = pane else {
            select_biased! {
                recv(feed.stop) -> _ => return,
                recv(requests) -> captured => (current, last) = (captured.ok(), None),
            }
            continue;
        };
        let screen = capture(feed, pane);
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
            recv(feed.stop) -> _ => return,
            recv(requests) -> captured => (current, last) = (captured.ok(), None),
            recv(feed.clock.after(SCREEN_PAUSE)) -> _ => {}
        }
    }
}

fn capture(feed: &Feed, CapturedPane { pane, server }: &CapturedPane) -> Result<Screen, String> {
    let socket = (feed.find)()?;
    let mut path = format!("/api/v1/panes/{}/screen", percent_encoded(pane.as_str()));
    if let Some(server) = server {
        path.push_str(&format!("?socket={}", percent_encoded(server)));
    }
    let answer = get(&socket, &path, None, Duration::ZERO).map_err(|error| format!("{error:?}"))?;
    if answer.status != 200 {
        return Err(answer.problem());
    }
    let screen: ScreenResponse = serde_json::from_slice(&answer.body)
        .map_err(|cause| format!("the screen is not readable: {cause}"))?;
    Ok(screen_of(
        screen.height,
        screen.cursor,
        &screen.rows,
        &screen.styles,
    ))
}

/// The response to a request for a screen.
#[derive(serde::Deserialize)]
struct ScreenResponse {
    height: u32,
    cursor: Cursor,
    rows: Vec<ScreenRow>,
    #[serde(default)]
    styles: Styles,
}

/// Converts rows of text and their styles to a screen.
pub(super) fn screen_of(
    height: u32,
    cursor: Cursor,
    rows: &[ScreenRow],
    styles: &Styles,
) -> Screen {
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let mut line_styles = LineStyles::default();
    line_styles.set(0, i64::from(height), styles);
    let mut lines = vec![StyledText::default(); usize::from(small(height)).min(1_000)];
    for row in rows {
        if let Some(line) = lines.get_mut(row.row as usize) {
            *line = pane_line(&line_styles, i64::from(row.row), &row.text);
        }
    }
    Screen {
        cursor: (small(cursor.x), small(cursor.y)),
        rows: lines,
    }
}
