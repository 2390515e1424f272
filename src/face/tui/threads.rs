//! Starts and ends the threads of the UI.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, select_biased};
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

use super::effect::{CaptureRequest, FollowedRun, Input, PageRequest, ScanRequest};
use super::feeds::{Feed, FindObserver, Inbox, read_board, read_live, read_screen};
use super::log_files::{LogAccess, read_pages, scan};
use super::older_runs::read_history;
use super::requests::{RequestSender, request_queue};
use super::wake::{InputSender, Woken, wake_pair};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::history::DataDir;
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};

/// The maximum number of inputs that wait. Threads wait for room; a full queue is handled within a frame.
const INPUTS_MAX: usize = 64;

/// The threads of the UI, and the channels to them.
pub(super) struct Threads {
    pub generation: Arc<AtomicU64>,
    pub inbox: Arc<Inbox>,
    pub live: RequestSender<FollowedRun>,
    pub pages: RequestSender<PageRequest>,
    pub scans: RequestSender<ScanRequest>,
    pub screens: RequestSender<CaptureRequest>,
    pub inputs: Receiver<Input>,
    pub send: InputSender,
    /// The signal that ends the UI.
    pub ended: Receiver<i32>,
    /// Notified of each input, live event, signal, and change of the terminal's size.
    pub woken: Woken,
    pub stop: Stop,
    on_resize: Option<SigId>,
    /// Dropped first, which stops all threads.
    running: Option<StopGuard>,
    handles: Vec<Handle<()>>,
}

impl Threads {
    /// Starts all threads. `signals` receives the signal that ends the UI.
    pub fn start(
        find: FindObserver,
        data: DataDir,
        clock: Clock,
        signals: Receiver<i32>,
    ) -> Result<Self> {
        let (running, stop) = stop_pair();
        let no_wake = |cause: io::Error| Error::other("cannot wake the terminal UI").because(cause);
        let (wake, woken) = wake_pair().map_err(no_wake)?;
        let (send, inputs) = bounded(INPUTS_MAX);
        let send = InputSender::new(send, wake.clone());
        let (end, ended) = bounded(1);
        let feed = Feed {
            find,
            clock: clock.clone(),
            stop: stop.clone(),
        };
        let generation = Arc::new(AtomicU64::new(0));
        let access = LogAccess {
            data,
            clock,
            stop: stop.clone(),
            generation: generation.clone(),
        };
        let inbox = Arc::new(Inbox::default());
        let (live, followed) = request_queue();
        let (pages, page_requests) = request_queue();
        let (scans, scan_requests) = request_queue();
        let (screens, captured) = request_queue();
        let mut threads = Self {
            generation,
            inbox: inbox.clone(),
            live,
            pages,
            scans,
            screens,
            inputs,
            send: send.clone(),
            ended,
            woken,
            stop: stop.clone(),
            on_resize: None,
            running: Some(running),
            handles: Vec::new(),
        };
        let handler = wake.for_handler().map_err(no_wake)?;
        let on_resize = signal_hook::low_level::pipe::register(SIGWINCH, handler);
        threads.on_resize = Some(on_resize.map_err(no_wake)?);
        let wake_up = wake.clone();
        threads.spawn("td-tui-end", move || {
            select_biased! {
                recv(signals) -> signal => {
                    // The channel has room for one signal, which is enough.
                    let _ = end.try_send(signal.unwrap_or_default());
                    wake_up.notify();
                    // A thread that ends before the UI counts as panicked, so this one waits; the stop
                    // channel has no message.
                    let _ = stop.recv();
                }
                recv(stop) -> _ => {}
            }
        })?;
        let (board_feed, to) = (feed.clone(), send.clone());
        threads.spawn("td-tui-board", move || read_board(&board_feed, &to))?;
        let (live_feed, to) = (feed.clone(), send.clone());
        threads.spawn("td-tui-live", move || {
            read_live(&live_feed, &followed, &inbox, &wake, &to)
        })?;
        let to = send.clone();
        threads.spawn("td-tui-screen", move || read_screen(&feed, &captured, &to))?;
        let (pages_access, to) = (access.clone(), send.clone());
        threads.spawn("td-tui-pages", move || {
            read_pages(&pages_access, &page_requests, &to)
        })?;
        let (scan_access, to) = (access.clone(), send.clone());
        threads.spawn("td-tui-scan", move || {
            scan(&scan_access, &scan_requests, &to)
        })?;
        threads.spawn("td-tui-history", move || read_history(&access, &send))?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        self.handles.push(thread::spawn(name, body)?);
        Ok(())
    }

    /// Returns true if a thread has ended while the UI runs, which means that it has panicked.
    pub fn has_failed(&self) -> bool {
        self.handles.iter().any(Handle::is_finished)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(id) = self.on_resize.take() {
            signal_hook::low_level::unregister(id);
        }
        for handle in self.handles.drain(..) {
            // A thread may be waiting for room in the queue.
            while !handle.is_finished() {
                while self.inputs.try_recv().is_ok() {}
                thread::park(Some(Duration::from_millis(1)));
            }
            handle.join_logged();
        }
    }
}
