//! The threads behind the UI: started together, ended together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, select_biased};
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

use super::effect::Input;
use super::feeds::{
    Captured, Feed, FindObserver, Followed, Inbox, read_board, read_live, read_screen,
};
use super::log_files::{PageRequest, Reading, ScanRequest, read_pages, scan};
use super::mailbox::{Mailbox, mailbox};
use super::older_runs::read_history;
use super::wake::{InputSender, Woken, wake_pair};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::history::DataDir;
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};

/// The inputs that wait to be handled. Threads wait for room; a full queue is handled within a frame.
const INPUTS_MAX: usize = 64;

/// The threads behind the UI, and the ways to them.
pub(super) struct Threads {
    pub wanted: Arc<AtomicU64>,
    pub inbox: Arc<Inbox>,
    pub live: Mailbox<Followed>,
    pub pages: Mailbox<PageRequest>,
    pub scans: Mailbox<ScanRequest>,
    pub screens: Mailbox<Captured>,
    pub inputs: Receiver<Input>,
    pub send: InputSender,
    /// The signal that ends the UI.
    pub ended: Receiver<i32>,
    /// Rung by each input, live event, signal and change of the terminal's size.
    pub woken: Woken,
    pub stop: Stop,
    on_resize: Option<SigId>,
    /// Dropped first: it ends all.
    running: Option<StopGuard>,
    handles: Vec<Handle<()>>,
}

impl Threads {
    /// Starts all. `signals` has the signal that ends the UI.
    ///
    /// # Errors
    /// If a thread cannot be started, or the system has no more descriptors.
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
        let wanted = Arc::new(AtomicU64::new(0));
        let reading = Reading {
            data,
            clock,
            stop: stop.clone(),
            wanted: wanted.clone(),
        };
        let inbox = Arc::new(Inbox::default());
        let (live, followed) = mailbox();
        let (pages, page_requests) = mailbox();
        let (scans, scan_requests) = mailbox();
        let (screens, captured) = mailbox();
        let mut threads = Self {
            wanted,
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
                    // There is room for one, which is enough.
                    let _ = end.try_send(signal.unwrap_or_default());
                    wake_up.ring();
                    // No thread ends before the UI, unless it has panicked; the stop has no message.
                    let _ = stop.recv();
                }
                recv(stop) -> _ => {}
            }
        })?;
        let (of, to) = (feed.clone(), send.clone());
        threads.spawn("td-tui-board", move || read_board(&of, &to))?;
        let (of, to) = (feed.clone(), send.clone());
        threads.spawn("td-tui-live", move || {
            read_live(&of, &followed, &inbox, &wake, &to)
        })?;
        let to = send.clone();
        threads.spawn("td-tui-screen", move || read_screen(&feed, &captured, &to))?;
        let (of, to) = (reading.clone(), send.clone());
        threads.spawn("td-tui-pages", move || read_pages(&of, &page_requests, &to))?;
        let (of, to) = (reading.clone(), send.clone());
        threads.spawn("td-tui-scan", move || scan(&of, &scan_requests, &to))?;
        threads.spawn("td-tui-history", move || read_history(&reading, &send))?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        self.handles.push(thread::spawn(name, body)?);
        Ok(())
    }

    /// Returns true if a thread has ended although the UI runs: it has panicked.
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
            // A thread may wait for room.
            while !handle.is_finished() {
                while self.inputs.try_recv().is_ok() {}
                thread::park(Some(Duration::from_millis(1)));
            }
            if let Err(panicked) = handle.join() {
                log::error!("{panicked}");
            }
        }
    }
}
