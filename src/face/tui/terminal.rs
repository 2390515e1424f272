//! The terminal: entered and left in order, and written to by a thread of its own, so that a slow
//! terminal holds up nothing else.
//!
//! `td-tui-out` takes the newest drawn screen, writes what differs from the last one, and blocks where the
//! terminal does. Frames that it has no time for are left out.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
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
    thread: Option<Handle<()>>,
}

/// The screen that the terminal shows.
#[derive(Debug, Default)]
struct Shown {
    /// `None` if it is unknown.
    drawn: Option<Frame>,
    /// Frames are not written while another program has the terminal.
    is_lent: bool,
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
            thread: Some(thread),
        })
    }

    /// Returns the columns and rows.
    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// Shows a drawn screen, as soon as the terminal has taken the last one.
    pub fn show(&self, drawn: Frame) {
        if let Some(frames) = &self.frames {
            frames.replace(drawn);
        }
    }

    /// Writes bytes that are no part of the screen, such as a copied text.
    pub fn write(&self, bytes: &[u8]) {
        if let Some(_writing) = lock_soon(&WRITING) {
            // A terminal that is gone is noticed by its signal.
            let _ = write_to_terminal(bytes);
        }
    }

    /// Returns true while the terminal is ours; a panic leaves it.
    pub fn is_entered() -> bool {
        IS_ENTERED.load(Ordering::SeqCst)
    }

    /// Leaves the terminal, does something else there, and enters it again.
    ///
    /// # Errors
    /// If the terminal cannot be entered again.
    pub fn lend<T>(&self, other: impl FnOnce() -> T) -> Result<T> {
        if let Some(mut shown) = lock_soon(&self.shown) {
            shown.is_lent = true;
            shown.drawn = None;
        }
        leave();
        let done = other();
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

/// Writes without the buffer of `io::stdout`, which keeps what the terminal does not take.
fn write_to_terminal(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(())
}

fn write_frames(letters: &Letters<Frame>, shown: &Mutex<Shown>) {
    let mut bytes = Vec::new();
    while letters.bell.recv().is_ok() {
        let Some(drawn) = letters.take().pop_back() else {
            continue;
        };
        let mut shown = shown
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if shown.is_lent || shown.drawn.as_ref() == Some(&drawn) {
            continue;
        }
        bytes.clear();
        if frame(
            &mut bytes,
            shown.drawn.as_ref().map(|last| &last.buffer),
            &drawn,
        )
        .is_err()
        {
            continue;
        }
        let _writing = WRITING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // With the lock: a terminal that is left gets nothing after its last bytes.
        if !IS_ENTERED.load(Ordering::SeqCst) {
            continue;
        }
        match write_to_terminal(&bytes) {
            Ok(()) => shown.drawn = Some(drawn),
            // What arrived is unknown.
            Err(_) => shown.drawn = None,
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
mod tests {
    use ratatui::style::{Color, Style};

    use super::*;

    #[test]
    fn a_frame_writes_what_differs() {
        let area = Rect::new(0, 0, 10, 2);
        let mut first = Frame {
            buffer: Buffer::empty(area),
            cursor: None,
        };
        first.buffer.set_string(0, 0, "hello", Style::new());
        let mut second = first.clone();
        second
            .buffer
            .set_string(2, 0, "LL", Style::new().fg(Color::Red));
        let bytes = |last: Option<&Buffer>, drawn: &Frame| {
            let mut bytes = Vec::new();
            frame(&mut bytes, last, drawn).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert!(bytes(None, &first).contains("hello"));
        let change = bytes(Some(&first.buffer), &second);
        assert!(
            change.contains("LL") && !change.contains("he"),
            "{change:?}"
        );
        let none = bytes(Some(&second.buffer), &second);
        assert!(
            !none.contains("LL") && !none.contains("\u{1b}[2J"),
            "{none:?}"
        );
        let larger = Frame {
            buffer: Buffer::empty(Rect::new(0, 0, 20, 2)),
            cursor: None,
        };
        assert!(bytes(Some(&second.buffer), &larger).contains("\u{1b}[2J"));
    }
}
