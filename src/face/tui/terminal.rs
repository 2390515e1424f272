//! Enters and leaves the terminal, and writes to it without blocking.
//!
//! A frame is the difference between two drawn screens. Writes to the terminal do not block: bytes that it
//! does not accept stay here until it does. Meanwhile no frame is drawn, so that the next one is current.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
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
use crate::thread::lock;

/// The time to wait for a terminal that accepts no more bytes, before it is left as it is.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// True while the terminal is in raw mode and shows the alternate screen. A process has one terminal.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Held while bytes are written, because a panic of another thread leaves the terminal.
static WRITING: Mutex<()> = Mutex::new(());

/// The bytes of a write that may block. Linux reports a terminal as writable while it buffers fewer than 256
/// bytes.
const PIECE_BYTES: usize = 256;

/// The terminal, and the screen that it shows.
#[derive(Debug)]
pub(super) struct Terminal {
    /// A second descriptor whose writes do not block; `None` if it cannot be opened.
    nonblocking: Option<File>,
    shown: Shown,
}

/// The screen that the terminal shows.
#[derive(Debug, Default)]
struct Shown {
    /// `None` if it is unknown.
    drawn: Option<Frame>,
    /// Bytes that the terminal has not accepted yet.
    pending: Vec<u8>,
}

/// The end of a loan of the terminal.
#[derive(Debug)]
pub(super) enum LoanEnd<T> {
    /// The other program has returned the terminal.
    Back(T),
    /// The UI ends, and the terminal stays with the other program.
    Over,
}

impl Terminal {
    /// Enters the terminal at standard output.
    ///
    /// # Errors
    /// Returns an error if standard input or output is not a terminal, or cannot be set up.
    pub fn enter() -> Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Error::invalid("standard input and output are no terminal"));
        }
        enter().map_err(|cause| Error::other("cannot set up the terminal").because(cause))?;
        Ok(Self {
            nonblocking: open_nonblocking(rustix::stdio::stdout(), OFlags::WRONLY),
            shown: Shown::default(),
        })
    }

    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// Shows a drawn screen, after all pending bytes.
    pub fn show(&mut self, drawn: Frame) {
        self.shown.queue_frame(drawn);
        self.write_pending();
    }

    /// Writes bytes that are not part of the screen, such as copied text.
    pub fn write(&mut self, bytes: &[u8]) {
        self.shown.pending.extend_from_slice(bytes);
        self.write_pending();
    }

    pub fn is_busy(&self) -> bool {
        !self.shown.pending.is_empty()
    }

    /// Writes as many pending bytes as the terminal accepts.
    pub fn write_pending(&mut self) {
        if !self.is_busy() {
            return;
        }
        let _writing = lock(&WRITING);
        // Checked with the lock held, so that nothing is written after the terminal was left.
        if !IS_ENTERED.load(Ordering::SeqCst) {
            return self.shown.forget();
        }
        match &self.nonblocking {
            Some(file) => self
                .shown
                .write_pending(|bytes| rustix::io::write(file, bytes)),
            None => self.shown.write_pending(write_if_ready),
        }
    }

    /// Invalidates the screen, because another program may have written to the terminal.
    pub fn forget(&mut self) {
        self.shown.forget();
    }

    /// Returns true while the UI has the terminal; a panic leaves it.
    pub fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Leaves the terminal, calls `other`, and enters the terminal again, unless the UI has ended.
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

    /// Writes all pending bytes, unless the terminal stops accepting them.
    fn finish(&mut self) {
        while self.is_busy() {
            if !wait_writable(&*self, PATIENCE) {
                return;
            }
            self.write_pending();
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.nonblocking {
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

/// Locks a mutex; returns `None` if another thread holds it for longer than [`PATIENCE`].
fn lock_timeout<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
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

/// Restores the terminal. May be called again, and from a panic.
fn leave() {
    if !IS_ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // The mode first, because it needs no room in the terminal's buffer.
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
    // A terminal that accepts no bytes is left as it is, because a write would block.
    if let Some(_writing) = lock_timeout(&WRITING)
        && wait_writable(rustix::stdio::stdout(), PATIENCE)
    {
        // An error means that the terminal is gone.
        let _ = write_to_terminal(&bytes);
    }
}

/// Restores the terminal before the message of a panic is printed.
pub(super) fn leave_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        leave();
        before(info);
    }));
}

/// Waits until a terminal accepts bytes; returns false on a timeout.
fn wait_writable(terminal: impl AsFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(&terminal, PollFlags::OUT)];
    let time = Timespec::try_from(time).ok();
    poll(&mut polled, time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Writes to standard output if a poll reports it as writable; the write may still block.
fn write_if_ready(bytes: &[u8]) -> rustix::io::Result<usize> {
    let stdout = rustix::stdio::stdout();
    match wait_writable(stdout, Duration::ZERO) {
        true => rustix::io::write(stdout, &bytes[..bytes.len().min(PIECE_BYTES)]),
        false => Err(Errno::AGAIN),
    }
}

/// Opens a terminal again as non-blocking. Other programs share the existing descriptions, whose flags must
/// not change.
pub(super) fn open_nonblocking(terminal: BorrowedFd<'_>, access: OFlags) -> Option<File> {
    let opened = rustix::termios::ttyname(terminal, Vec::new()).and_then(|name| {
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(name, flags, Mode::empty())
    });
    opened
        .map_err(|cause| log::debug!("the terminal cannot be opened again: {cause}"))
        .ok()
        .map(File::from)
}

/// Writes without the buffer of `io::stdout`, which would keep bytes that the terminal does not accept.
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
    /// Appends the bytes that draw a new screen.
    fn queue_frame(&mut self, drawn: Frame) {
        if self.drawn.as_ref() == Some(&drawn) {
            return;
        }
        let last = self.drawn.as_ref().map(|last| &last.buffer);
        // Writing to memory does not fail.
        let _ = frame(&mut self.pending, last, &drawn);
        self.drawn = Some(drawn);
    }

    /// Writes pending bytes until none are left, or the terminal accepts no more.
    fn write_pending(&mut self, write: impl Fn(&[u8]) -> rustix::io::Result<usize>) {
        let mut written = 0;
        while written < self.pending.len() {
            match write(&self.pending[written..]) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It is unknown how much has arrived.
                Err(_) => return self.forget(),
            }
        }
        self.pending.drain(..written);
    }

    /// Discards pending bytes, and the screen, which is then unknown.
    fn forget(&mut self) {
        self.pending.clear();
        self.drawn = None;
    }
}

/// Appends the bytes that turn one screen into another.
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
