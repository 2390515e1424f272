//! The terminal: entered and left in order, and never waited for.
//!
//! A frame is what differs between two drawn screens. Writes to the terminal do not wait: what it does not take
//! at once stays here until it takes more. Meanwhile no frame is drawn, so that the next one is the newest.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
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
use crate::error::{Error, Result};
use crate::thread;

/// The time to wait for a terminal that takes no more bytes, before it is left as it is.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// The terminal is ours: it is in raw mode and shows the alternate screen. One process has one terminal.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Held while bytes are written: a panic of another thread leaves the terminal.
static WRITING: Mutex<()> = Mutex::new(());

/// The bytes that are written at once where a write may wait. Linux reports room to a poll while fewer than 256
/// bytes are on their way.
const PIECE_BYTES: usize = 256;

/// The terminal, and what it shows.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Opened once more, so that writes do not wait; `None` if it cannot be.
    at_once: Option<File>,
    shown: Shown,
}

/// The screen that the terminal shows.
#[derive(Debug, Default)]
struct Shown {
    /// `None` if it is unknown.
    drawn: Option<Frame>,
    /// Bytes that the terminal has not taken yet.
    rest: Vec<u8>,
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
        Ok(Self {
            at_once: open_again(rustix::stdio::stdout(), OFlags::WRONLY),
            shown: Shown::default(),
        })
    }

    /// Returns the columns and rows.
    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// Shows a drawn screen, after what the terminal has not taken yet.
    pub fn show(&mut self, drawn: Frame) {
        self.shown.begin(drawn);
        self.pass_on();
    }

    /// Writes bytes that are no part of the screen, such as a copied text.
    pub fn write(&mut self, bytes: &[u8]) {
        self.shown.rest.extend_from_slice(bytes);
        self.pass_on();
    }

    /// Returns true if the terminal has not taken all bytes yet.
    pub fn is_busy(&self) -> bool {
        !self.shown.rest.is_empty()
    }

    /// Writes what the terminal takes now.
    pub fn pass_on(&mut self) {
        if !self.is_busy() {
            return;
        }
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        // With the lock: a terminal that is left gets nothing after its last bytes.
        if !IS_ENTERED.load(Ordering::SeqCst) {
            return self.shown.forget();
        }
        match &self.at_once {
            Some(file) => self.shown.pass_on(|bytes| rustix::io::write(file, bytes)),
            None => self.shown.pass_on(write_if_room),
        }
    }

    /// Forgets what the terminal shows: another program may have written there.
    pub fn forget(&mut self) {
        self.shown.forget();
    }

    /// Returns true while the terminal is ours; a panic leaves it.
    pub fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Leaves the terminal, does something else there, and enters it again, unless that was the end.
    ///
    /// # Errors
    /// If the terminal cannot be entered again.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> LoanEnd<T>) -> Result<LoanEnd<T>> {
        self.finish();
        self.forget();
        leave();
        let done = match other() {
            LoanEnd::Over => return Ok(LoanEnd::Over),
            done => done,
        };
        enter().map_err(|cause| Error::other("cannot set up the terminal").because(cause))?;
        Ok(done)
    }

    /// Writes what the terminal has not taken, unless it takes no more.
    fn finish(&mut self) {
        while self.is_busy() {
            if !has_room(&*self, PATIENCE) {
                return;
            }
            self.pass_on();
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.at_once {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdout(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.finish();
        leave();
    }
}

/// Locks, unless another thread holds the lock for long.
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
        && has_room(rustix::stdio::stdout(), PATIENCE)
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

/// Waits until a terminal takes bytes; returns false if it does not in this time.
fn has_room(terminal: impl AsFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(&terminal, PollFlags::OUT)];
    let time = Timespec::try_from(time).ok();
    poll(&mut polled, time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Writes to standard output without waiting, as far as that can be known.
fn write_if_room(bytes: &[u8]) -> rustix::io::Result<usize> {
    let stdout = rustix::stdio::stdout();
    match has_room(stdout, Duration::ZERO) {
        true => rustix::io::write(stdout, &bytes[..bytes.len().min(PIECE_BYTES)]),
        false => Err(Errno::AGAIN),
    }
}

/// Opens a terminal once more. Only this description of it does not block: the others belong to the programs
/// that share the terminal, too.
pub(super) fn open_again(terminal: BorrowedFd<'_>, access: OFlags) -> Option<File> {
    let opened = rustix::termios::ttyname(terminal, Vec::new()).and_then(|name| {
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
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
        if self.drawn.as_ref() == Some(&drawn) {
            return;
        }
        let last = self.drawn.as_ref().map(|last| &last.buffer);
        // Writing to memory does not fail.
        let _ = frame(&mut self.rest, last, &drawn);
        self.drawn = Some(drawn);
    }

    /// Writes the bytes, until there are none left, or the terminal takes no more.
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
