//! The threads that read from the observer: `td-tui-board` its board, `td-tui-live` the events of the
//! selected row's run, `td-tui-screen` the screen of the selected pane.
//!
//! Each ends when its sender is dropped. Live events go through an inbox that holds the last ones and
//! counts the others, so that a slow UI holds up nothing.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::select_biased;

use super::effect::{CapturedPane, Input};
use super::mailbox::Letters;
use super::model::{Connection, Screen};
use super::painted::StyledText;
use super::wake::{InputSender, Wake};
use super::window::{EVENTS_FOLLOWED, weight};
use crate::api::{EventReader, NoItem, Streamed, get, percent_encoded};
use crate::board::Row;
use crate::clock::Clock;
use crate::event::{Cursor, Envelope, ScreenRow, Styles};
use crate::face::clean::push_clean;
use crate::face::line_styles::LineStyles;
use crate::thread::{Stop, is_stopped};

/// The time for which the observer holds a request for changes.
const HOLD: Duration = Duration::from_secs(1);

/// The pause between two boards: twenty rows that change all the time are drawn no more often.
const BOARD_PAUSE: Duration = Duration::from_millis(100);

/// The pause before another attempt to reach the observer.
const RETRY: Duration = Duration::from_millis(200);

/// The time without an observer after which the UI says so.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two captures of a screen.
const SCREEN_PAUSE: Duration = Duration::from_millis(250);

/// The time in which the live thread notices another selection.
const CHECK: Duration = Duration::from_millis(20);

/// The pause in which live events gather. On a busy machine, a program that wakes for each event waits longer
/// for its next turn, and then a key waits, too.
const GATHERING: Duration = Duration::from_millis(25);

/// The most bytes of live events that wait for the UI.
const INBOX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Live events that are older than this are skipped: the UI shows what happens now.
const BEHIND_MICROS: i64 = 3_000_000;

/// Finds the socket of the observer that runs; the error says why there is none.
pub(super) type FindObserver = Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>;

/// The way to the observer, and the end.
#[derive(Clone)]
pub(super) struct Feed {
    pub find: FindObserver,
    pub clock: Clock,
    pub stop: Stop,
}

impl Feed {
    /// Waits; returns false if the UI ends.
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
        let found = socket.map(|socket| {
            let path = match &etag {
                Some(_) => "/api/v1/board?wait=1",
                None => "/api/v1/board",
            };
            get(&socket, path, etag.as_deref(), HOLD)
        });
        let why = match found {
            Ok(Ok(answer)) if answer.status == 304 => {
                lost_since = None;
                continue;
            }
            Ok(Ok(answer)) if answer.status == 200 => {
                lost_since = None;
                match rows(&answer.body) {
                    Ok(rows) => {
                        etag = answer.etag;
                        if inputs.send(Input::Board(rows)).is_err() || !feed.pause(BOARD_PAUSE) {
                            return;
                        }
                        continue;
                    }
                    Err(why) => why,
                }
            }
            Ok(Ok(answer)) => format!("the observer refuses: {}", answer.problem()),
            Ok(Err(error)) if !error.is_gone() => error.to_string(),
            Ok(Err(_)) => "the observer has ended: td-observe start begins another".to_owned(),
            Err(why) => why,
        };
        etag = None;
        let now = feed.clock.now();
        let since = *lost_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= PATIENCE {
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

fn rows(body: &[u8]) -> Result<Vec<Row>, String> {
    let invalid =
        |cause: serde_json::Error| format!("the observer's board is not readable: {cause}");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(body).map_err(invalid)?;
    rows.iter()
        .map(|row| Row::from_json(row).map_err(invalid))
        .collect()
}

/// The selected run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub generation: u64,
    pub execution: String,
}

/// Live events that the UI has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    generation: u64,
    events: VecDeque<Envelope>,
    bytes: usize,
    missed: u64,
}

impl Inbox {
    /// Adds an event; the oldest ones are counted only where there are too many.
    fn add(&self, generation: u64, envelope: Envelope) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.generation != generation {
            *waiting = Waiting {
                generation,
                ..Waiting::default()
            };
        }
        waiting.bytes += weight(&envelope);
        waiting.events.push_back(envelope);
        while (waiting.events.len() > EVENTS_FOLLOWED || waiting.bytes > INBOX_BYTES_MAX)
            && waiting.events.len() > 1
            && let Some(dropped) = waiting.events.pop_front()
        {
            waiting.bytes -= weight(&dropped);
            waiting.missed += dropped.n;
        }
    }

    pub fn is_empty(&self) -> bool {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.events.is_empty()
    }

    /// Takes the oldest events, about `bytes` of them, as one input; `None` if nothing waits.
    pub fn take(&self, bytes: usize) -> Option<Input> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        let is_taken = |envelope: &&Envelope| {
            let has_room = taken < bytes;
            taken += weight(envelope);
            has_room
        };
        let count = waiting.events.iter().take_while(is_taken).count();
        let events: Vec<Envelope> = waiting.events.drain(..count).collect();
        waiting.bytes -= events.iter().map(weight).sum::<usize>();
        (!events.is_empty()).then(|| Input::Live {
            generation: waiting.generation,
            missed: std::mem::take(&mut waiting.missed),
            events,
        })
    }
}

/// The stream of the selected run.
struct Following {
    followed: Followed,
    /// `None` before the observer is found.
    reader: Option<EventReader>,
    /// The UI knows that its events arrive.
    is_reported: bool,
    /// Events have gathered, and are read without waiting.
    has_gathered: bool,
}

impl Following {
    fn new(followed: Followed) -> Self {
        Self {
            followed,
            reader: None,
            is_reported: false,
            has_gathered: false,
        }
    }
}

/// Reports the live events of the run that was selected last.
pub(super) fn read_live(
    feed: &Feed,
    selected: &Letters<Followed>,
    inbox: &Inbox,
    wake: &Wake,
    inputs: &InputSender,
) {
    let mut current: Option<Following> = None;
    loop {
        if is_stopped(&feed.stop) {
            return;
        }
        if let Some(followed) = selected.take().pop_back() {
            current = Some(Following::new(followed));
        }
        let Some(run) = &mut current else {
            select_biased! {
                recv(feed.stop) -> _ => return,
                recv(selected.bell) -> _ => continue,
            }
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
        let patience = match run.has_gathered {
            true => Duration::ZERO,
            false => CHECK,
        };
        let next = reader.next(feed.clock.now() + patience);
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
                run.has_gathered = true;
                let now = feed.clock.wall().micros();
                let behind = now.saturating_sub(envelope.ts.micros());
                inbox.add(generation, *envelope);
                wake.ring();
                if behind > BEHIND_MICROS && run.is_reported {
                    // The events between are in the log, and the UI counts them by their numbers.
                    *run = Following::new(run.followed.clone());
                }
            }
            // Their numbers are missing, which the UI notices.
            Ok(Streamed::Missed(_)) => {}
            Err(NoItem::Timeout) if run.has_gathered => {
                run.has_gathered = false;
                select_biased! {
                    recv(feed.stop) -> _ => return,
                    recv(selected.bell) -> _ => {}
                    recv(feed.clock.after(GATHERING)) -> _ => {}
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

/// The pane whose screen is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Captured {
    pub generation: u64,
    pub pane: Option<CapturedPane>,
}

/// Reports the screen of a pane again and again, while it is shown.
pub(super) fn read_screen(feed: &Feed, wanted: &Letters<Captured>, inputs: &InputSender) {
    let mut current: Option<Captured> = None;
    let mut last: Option<Screen> = None;
    loop {
        if let Some(captured) = wanted.take().pop_back() {
            current = Some(captured).filter(|captured| captured.pane.is_some());
            last = None;
        }
        let Some(captured) = &current else {
            select_biased! {
                recv(feed.stop) -> _ => return,
                recv(wanted.bell) -> _ => continue,
            }
        };
        let screen = capture(feed, captured);
        let is_failed = screen.is_err();
        if screen.as_ref().ok() != last.as_ref() || is_failed {
            last = screen.as_ref().ok().cloned();
            let input = Input::Screen {
                generation: captured.generation,
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
            recv(wanted.bell) -> _ => {}
            recv(feed.clock.after(SCREEN_PAUSE)) -> _ => {}
        }
    }
}

fn capture(feed: &Feed, captured: &Captured) -> Result<Screen, String> {
    let Some(CapturedPane { pane, server }) = &captured.pane else {
        return Err("there is no pane".to_owned());
    };
    let socket = (feed.find)()?;
    let mut path = format!("/api/v1/panes/{}/screen", percent_encoded(pane.as_str()));
    if let Some(server) = server {
        path.push_str(&format!("?socket={}", percent_encoded(server)));
    }
    let answer = get(&socket, &path, None, Duration::ZERO).map_err(|error| error.to_string())?;
    if answer.status != 200 {
        return Err(answer.problem());
    }
    let screen: CapturedScreen = serde_json::from_slice(&answer.body)
        .map_err(|cause| format!("the screen is not readable: {cause}"))?;
    Ok(screen_of(
        (screen.width, screen.height),
        screen.cursor,
        &screen.rows,
        &screen.styles,
    ))
}

/// The answer to a request for a screen.
#[derive(serde::Deserialize)]
struct CapturedScreen {
    width: u32,
    height: u32,
    cursor: Cursor,
    rows: Vec<ScreenRow>,
    #[serde(default)]
    styles: Styles,
}

/// Makes a screen of rows of text and their styles.
pub(super) fn screen_of(
    (width, height): (u32, u32),
    cursor: Cursor,
    rows: &[ScreenRow],
    styles: &Styles,
) -> Screen {
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let mut line_styles = LineStyles::default();
    line_styles.set(0, i64::from(height), styles);
    let mut lines = vec![StyledText::default(); usize::from(small(height)).min(1_000)];
    for row in rows {
        let Some(line) = lines.get_mut(row.row as usize) else {
            continue;
        };
        *line = match line_styles.paint(i64::from(row.row), &row.text) {
            Some(painted) => StyledText::painted(&painted),
            None => {
                let mut clean = String::new();
                push_clean(&mut clean, &row.text);
                StyledText::plain(clean, ratatui::style::Style::new())
            }
        };
    }
    Screen {
        width: small(width),
        height: small(height),
        cursor: (small(cursor.x), small(cursor.y)),
        rows: lines,
    }
}
