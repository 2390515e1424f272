//! The terminal: entered and left in order, and never waited for.
//!
//! A frame is what differs between two drawn screens. The terminal takes it at once, as a rule: then no
//! other thread is needed, whose turn may come late on a busy machine. What it does not take at once is
//! written by `td-tui-out`, which blocks where the terminal does. Meanwhile the newest drawn screen waits,
//! and older ones are left out.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, queue};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::draw::Frame;
use super::mailbox::{Letters, Mailbox, mailbox};
use crate::error::{Error, Result};
use crate::thread::{self, Handle};

/// The time to wait for a terminal that takes no more bytes, before it is left as it is.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// The terminal is ours: it is in raw mode and shows the alternate screen. One process has one terminal.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Held while bytes are written. Unlike the lock of `io::stdout`, it can be given up when the terminal takes
/// no more.
static WRITING: Mutex<()> = Mutex::new(());

/// The terminal and the thread that writes to it.
#[derive(Debug)]
pub(super) struct Terminal {
    frames: Option<Mailbox<Frame>>,
    shown: Arc<Mutex<Shown>>,
    /// The terminal, opened once more, so that writes to it do not wait; `None` if it cannot be.
    at_once: Option<File>,
    thread: Option<Handle<()>>,
}

/// The screen that the terminal shows.
#[derive(Debug, Default)]
struct Shown {
    /// `None` if it is unknown.
    drawn: Option<Frame>,
    /// Bytes that the terminal has not taken yet.
    rest: Vec<u8>,
    /// Frames are not written while another program has the terminal.
    is_lent: bool,
}

/// The end of a loan of the terminal.
#[derive(Debug)]
pub(super) enum LoanEnd<T> {
    /// The terminal is given back.
    Back(T),
    /// The program ends, and the terminal is another program's.
    Over,
}

impl Terminal {
    /// Enters the terminal at standard output.
    ///
    /// # Errors
    /// If standard output is no terminal, or cannot be set up.
    pub fn enter() -> Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Error::invalid("standard input and output are no terminal"));
        }
        enter().map_err(|cause| Error::other("cannot set up the terminal").because(cause))?;
        let (frames, letters) = mailbox();
        let shown = Arc::new(Mutex::new(Shown::default()));
        let writer = shown.clone();
        let thread = match thread::spawn("td-tui-out", move || write_frames(&letters, &writer)) {
            Ok(thread) => thread,
            Err(error) => {
                leave();
                return Err(error);
            }
        };
        Ok(Self {
            frames: Some(frames),
            shown,
            at_once: open_again(),
            thread: Some(thread),
        })
    }

    /// Returns the columns and rows.
    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// Shows a drawn screen, as soon as the terminal has taken the last one.
    pub fn show(&self, drawn: Frame) {
        let Some(frames) = &self.frames else { return };
        let (Some(file), Ok(mut shown)) = (&self.at_once, self.shown.try_lock()) else {
            return frames.replace(drawn);
        };
        if !shown.rest.is_empty() {
            return frames.replace(drawn);
        }
        // With the lock: the thread takes none that is older than what the terminal shows.
        frames.clear();
        shown.begin(drawn);
        shown.write(|bytes| rustix::io::write(file, bytes));
        if !shown.rest.is_empty() {
            frames.ring();
        }
    }

    /// Writes bytes that are no part of the screen, such as a copied text.
    pub fn write(&self, bytes: &[u8]) {
        if let Some(_writing) = lock_soon(&WRITING) {
            // A terminal that is gone is noticed by its signal.
            let _ = write_to_terminal(bytes);
        }
    }

    /// Forgets what the terminal shows: another program may have written there.
    pub fn forget(&self) {
        if let Some(mut shown) = lock_soon(&self.shown) {
            shown.forget();
        }
    }

    /// Returns true while the terminal is ours; a panic leaves it.
    pub fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Leaves the terminal, does something else there, and enters it again, unless that was the end.
    ///
    /// # Errors
    /// If the terminal cannot be entered again.
    pub fn lend<T>(&self, other: impl FnOnce() -> LoanEnd<T>) -> Result<LoanEnd<T>> {
        if let Some(mut shown) = lock_soon(&self.shown) {
            shown.is_lent = true;
            shown.forget();
        }
        leave();
        let done = match other() {
            LoanEnd::Over => return Ok(LoanEnd::Over),
            done => done,
        };
        enter().map_err(|cause| Error::other("cannot set up the terminal").because(cause))?;
        if let Some(mut shown) = lock_soon(&self.shown) {
            shown.is_lent = false;
        }
        Ok(done)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.frames.take());
        // The last frame is written first, unless the terminal takes no more.
        let thread = self.thread.take();
        let shown = lock_soon(&self.shown);
        leave();
        let is_stuck = shown.is_none();
        drop(shown);
        if let Some(thread) = thread
            && !is_stuck
            && let Err(panicked) = thread.join()
        {
            log::error!("{panicked}");
        }
    }
}

/// Locks, unless the writing thread holds the lock for long.
fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let mut left = PATIENCE;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                left = left.checked_sub(PAUSE)?;
                thread::park(Some(PAUSE));
            }
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_ENTERED.store(true, Ordering::SeqCst);
    let mut bytes = Vec::new();
    queue!(
        bytes,
        EnterAlternateScreen,
        cursor::Hide,
        EnableBracketedPaste,
        Clear(ClearType::All)
    )?;
    write_to_terminal(&bytes)
}

/// Leaves the terminal as it was. Safe to call again, and from a panic.
fn leave() {
    if !IS_ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // The mode first: it needs no room in the terminal's buffer.
    let _ = disable_raw_mode();
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = queue!(
        bytes,
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    // A terminal that takes no more is left as it is: a write would not return.
    if let Some(_writing) = lock_soon(&WRITING)
        && has_room()
    {
        // A terminal that is gone needs nothing more.
        let _ = write_to_terminal(&bytes);
    }
}

/// Leaves the terminal before the message of a panic is printed.
pub(super) fn leave_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        leave();
        before(info);
    }));
}

/// Waits until the terminal takes bytes; returns false if it does not soon.
fn has_room() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
    let patience = Timespec::try_from(PATIENCE).ok();
    poll(&mut polled, patience.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Opens the terminal at standard output once more. Only this description of it does not block: the others
/// belong to the programs that share the terminal, too.
fn open_again() -> Option<File> {
    let opened = rustix::termios::ttyname(rustix::stdio::stdout(), Vec::new()).and_then(|name| {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(name, flags, Mode::empty())
    });
    opened
        .map_err(|cause| log::debug!("the terminal cannot be opened again: {cause}"))
        .ok()
        .map(File::from)
}

/// Writes without the buffer of `io::stdout`, which keeps what the terminal does not take.
fn write_to_terminal(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(())
}

impl Shown {
    /// Adds what turns the screen into a drawn one.
    fn begin(&mut self, drawn: Frame) {
        if self.is_lent || self.drawn.as_ref() == Some(&drawn) {
            return;
        }
        let last = self.drawn.as_ref().map(|last| &last.buffer);
        // Writing to memory does not fail.
        let _ = frame(&mut self.rest, last, &drawn);
        self.drawn = Some(drawn);
    }

    /// Writes the bytes, until there are none left, or the terminal takes no more.
    fn write(&mut self, write: impl Fn(&[u8]) -> rustix::io::Result<usize>) {
        if self.rest.is_empty() {
            return;
        }
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        // With the lock: a terminal that is left gets nothing after its last bytes.
        match IS_ENTERED.load(Ordering::SeqCst) {
            true => self.pass_on(write),
            false => self.forget(),
        }
    }

    fn pass_on(&mut self, write: impl Fn(&[u8]) -> rustix::io::Result<usize>) {
        let mut written = 0;
        while written < self.rest.len() {
            match write(&self.rest[written..]) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // What arrived is unknown.
                Err(_) => return self.forget(),
            }
        }
        self.rest.drain(..written);
    }

    /// Forgets a screen that is no longer known.
    fn forget(&mut self) {
        self.rest.clear();
        self.drawn = None;
    }
}

/// Writes what the terminal does not take at once.
fn write_frames(letters: &Letters<Frame>, shown: &Mutex<Shown>) {
    let stdout = |bytes: &[u8]| rustix::io::write(rustix::stdio::stdout(), bytes);
    while letters.bell.recv().is_ok() {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.write(stdout);
        if let Some(drawn) = letters.take().pop_back() {
            shown.begin(drawn);
            shown.write(stdout);
        }
    }
}

/// Adds what turns one screen into another.
fn frame(bytes: &mut Vec<u8>, last: Option<&Buffer>, drawn: &Frame) -> io::Result<()> {
    let last = last.filter(|last| last.area == drawn.buffer.area);
    let empty;
    let mut backend = CrosstermBackend::new(bytes);
    queue!(backend, BeginSynchronizedUpdate)?;
    let last = match last {
        Some(last) => last,
        None => {
            queue!(backend, Clear(ClearType::All))?;
            empty = Buffer::empty(Rect {
                ..drawn.buffer.area
            });
            &empty
        }
    };
    backend.draw(last.diff(&drawn.buffer).into_iter())?;
    match drawn.cursor {
        Some(at) => queue!(backend, cursor::MoveTo(at.x, at.y), cursor::Show)?,
        None => queue!(backend, cursor::Hide)?,
    }
    queue!(backend, EndSynchronizedUpdate)
}

#[cfg(test)]
mod panic_tests;

#[cfg(test)]
mod tests;
