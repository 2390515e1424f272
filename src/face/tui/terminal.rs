//! Enters, leaves and lends the terminal, writes frames to it and reads keys from it, without blocking.
//!
//! A frame is the difference between two drawn screens. Writes to the terminal do not block: bytes that it
//! does not accept stay here until it does. Meanwhile no frame is drawn, so that the next one is current.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, KeyEventKind};
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
use terminput::Event;
use terminput_crossterm::to_crossterm;

use super::draw::Frame;
use super::effect::Input;
use super::reports::{self, Answers, Part};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::process::{is_typed_at, stop_own_group};
use crate::thread::{self, lock};

/// The time to wait for a terminal that accepts no more bytes, before it is left as it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// True while the terminal is in raw mode and shows the alternate screen. A process has one terminal. A panic
/// leaves it.
pub(super) static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// True once something was reported to the terminal, until that ends.
pub(super) static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Held while bytes are written, because a panic of another thread leaves the terminal.
static WRITING: Mutex<()> = Mutex::new(());

/// The terminal, and the screen that it shows.
#[derive(Debug)]
pub(super) struct Terminal {
    /// A second descriptor whose writes do not block; `None` if it cannot be opened.
    nonblocking: Option<File>,
    pub shown: Shown,
}

/// The screen that the terminal shows.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// `None` if it is unknown.
    drawn: Option<Frame>,
    /// Bytes that the terminal has not accepted yet.
    pending: Vec<u8>,
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

    /// Leaves the terminal, calls `other`, and enters the terminal again. If `other` returns `None`, the UI
    /// ends, and the terminal stays with the other program.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> Option<T>) -> Result<Option<T>> {
        self.finish();
        self.shown.forget();
        leave();
        let done = other();
        if done.is_some() {
            enter().map_err(|cause| Error::other("cannot set up the terminal").because(cause))?;
        }
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
                let pause = PATIENCE / 100;
                left = left.checked_sub(pause)?;
                thread::park(Some(pause));
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
    if HAS_REPORTED.swap(false, Ordering::SeqCst) {
        bytes.extend_from_slice(reports::end().as_bytes());
    }
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
    if !wait_writable(stdout, Duration::ZERO) {
        return Err(Errno::AGAIN);
    }
    // Linux reports a terminal as writable while it buffers fewer than 256 bytes.
    rustix::io::write(stdout, &bytes[..bytes.len().min(256)])
}

/// Opens a terminal again as non-blocking. Other programs share the existing descriptions, whose flags must
/// not change.
fn open_nonblocking(terminal: BorrowedFd<'_>, access: OFlags) -> Option<File> {
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
    pub fn forget(&mut self) {
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

/// The beginning of pasted text (xterm's bracketed paste). Its end `\x1b[201~` has the same length.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";

/// The maximum number of bytes of one key or paste. No input needs a longer paste; its last bytes are kept.
const PENDING_BYTES_MAX: usize = 1024 * 1024;

/// The terminal, for reading.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// A second descriptor whose reads do not block; `None` if it cannot be opened.
    nonblocking: Option<File>,
    pub decoder: Decoder,
}

impl Keyboard {
    pub fn open() -> Self {
        Self {
            nonblocking: open_nonblocking(rustix::stdio::stdin(), OFlags::RDONLY),
            decoder: Decoder::default(),
        }
    }

    /// Reads the available input; returns an empty list if there is none.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn read(&mut self) -> io::Result<Vec<Input>> {
        // A terminal in raw mode buffers at most 4 KiB.
        let mut bytes = [0; 4096];
        match rustix::io::read(self.as_fd(), &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(self.decoder.decode(&bytes[..count])),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Vec::new()),
            Err(cause) => Err(cause.into()),
        }
    }
}

impl AsFd for Keyboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.nonblocking {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }
}

/// Decodes a terminal's bytes (pure).
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a key or of pasted text.
    pending: Vec<u8>,
    /// What the terminal has answered.
    pub answers: Answers,
}

impl Decoder {
    /// Forgets the beginning of a key.
    pub fn forget(&mut self) {
        self.pending.clear();
    }

    fn decode(&mut self, bytes: &[u8]) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut rest = bytes;
        while let [byte, after @ ..] = rest {
            rest = after;
            // Ctrl-C ends a paste whose end never arrives; terminals usually remove it from pasted text.
            if *byte == 0x03 {
                self.pending.clear();
            }
            self.pending.push(*byte);
            // Escape alone is a key; a terminal writes the bytes of a longer sequence at once.
            if self.pending == b"\x1b" && !rest.is_empty() {
                continue;
            }
            match self.answers.take(&self.pending) {
                Part::Whole => {
                    self.pending.clear();
                    continue;
                }
                Part::Beginning => continue,
                Part::None => {}
            }
            // What began like an answer were keys.
            if let Some((key @ [b'\x1b', b']'], held)) = self.pending.split_at_checked(2)
                && !held.is_empty()
            {
                inputs.extend(Event::parse_from(key).ok().flatten().and_then(input));
                let again = [held, rest].concat();
                self.pending.clear();
                inputs.extend(self.decode(&again));
                return inputs;
            }
            match Event::parse_from(&self.pending) {
                Ok(Some(event)) => inputs.extend(input(event)),
                Ok(None) if self.pending.len() < PENDING_BYTES_MAX => continue,
                // The rest of the paste must not be read as keys.
                Ok(None) if self.pending.starts_with(PASTE_BEGINS) => {
                    let kept = self.pending.len() - PASTE_BEGINS.len();
                    self.pending.drain(PASTE_BEGINS.len()..kept);
                    continue;
                }
                // The bytes are neither a key nor the beginning of one.
                Ok(None) | Err(_) => {}
            }
            self.pending.clear();
        }
        inputs
    }
}

fn input(event: Event) -> Option<Input> {
    match to_crossterm(event).ok()? {
        crossterm::event::Event::Key(key) if key.kind != KeyEventKind::Release => {
            Some(Input::Key(key))
        }
        crossterm::event::Event::Paste(text) => Some(Input::Paste(text)),
        _ => None,
    }
}

/// Stops the whole job until `fg`. A signal ends the program also in the background, where it must not touch
/// the terminal.
pub(super) fn suspend(
    terminal: &mut Terminal,
    ended: &Receiver<i32>,
    clock: &Clock,
) -> Result<Option<()>> {
    terminal.lend(|| {
        stop_own_group();
        while !is_typed_at() {
            select_biased! {
                recv(ended) -> _ => return None,
                recv(clock.after(PATIENCE / 5)) -> _ => {}
            }
        }
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read;

    use crossterm::event::{KeyCode, KeyModifiers};
    use proptest::prelude::*;
    use pty_process::blocking::{Command, open};
    use ratatui::style::{Color, Style};
    use rustix::termios::tcgetattr;

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

    /// Returns a screen of two rows with a text in it.
    fn screen_of(column: u16, text: &str) -> Frame {
        let mut drawn = Frame {
            buffer: Buffer::empty(Rect::new(0, 0, 20, 2)),
            cursor: None,
        };
        drawn.buffer.set_string(column, 0, text, Style::new());
        drawn
    }

    proptest! {
        /// A terminal that accepts only a few bytes at a time shows the last screen in the end.
        #[test]
        fn a_slow_terminal_shows_the_last_screen(
            steps in prop::collection::vec((0_u16..20, "[a-z]{1,8}", 0_usize..60, any::<bool>()), 1..20),
        ) {
            let (mut shown, mut terminal) = (Shown::default(), avt::Terminal::new(20, 2).unwrap());
            let mut waiting = None;
            let mut write_pending = |shown: &mut Shown, room: usize| {
                let left = Cell::new(room);
                let taken = std::cell::RefCell::new(Vec::new());
                shown.write_pending(|bytes| {
                    let count = bytes.len().min(left.get());
                    left.set(left.get() - count);
                    taken.borrow_mut().extend_from_slice(&bytes[..count]);
                    if count == 0 { Err(Errno::AGAIN) } else { Ok(count) }
                });
                terminal.feed(String::from_utf8_lossy(&taken.borrow()).as_ref());
            };
            for (column, text, room, fails) in &steps {
                waiting = Some(screen_of(*column, text));
                write_pending(&mut shown, *room);
                if shown.pending.is_empty() {
                    shown.queue_frame(waiting.take().unwrap());
                    write_pending(&mut shown, *room);
                }
                if *fails {
                    shown.write_pending(|_| Err(Errno::IO));
                }
            }
            write_pending(&mut shown, usize::MAX);
            let last = waiting.or_else(|| shown.drawn.clone());
            let last = last.unwrap_or_else(|| screen_of(steps.last().unwrap().0, &steps.last().unwrap().1));
            shown.queue_frame(last.clone());
            write_pending(&mut shown, usize::MAX);
            let (column, text, ..) = steps.last().unwrap();
            prop_assert_eq!(&last, &screen_of(*column, text));
            let row = terminal.screen().line(0).unwrap().text();
            let expected: String = last.buffer.content[..20].iter().map(|cell| cell.symbol()).collect();
            prop_assert_eq!(row.trim_end(), expected.trim_end());
        }
    }

    fn keys(bytes: &[u8]) -> Vec<(KeyCode, KeyModifiers)> {
        let inputs = Decoder::default().decode(bytes).into_iter();
        let key = |input| match input {
            Input::Key(key) => (key.code, key.modifiers),
            input => panic!("{input:?} is no key"),
        };
        inputs.map(key).collect()
    }

    #[test]
    fn the_keys_of_terminals_are_known() {
        let none = KeyModifiers::NONE;
        for (bytes, code, modifiers) in [
            ("j", KeyCode::Char('j'), none),
            ("G", KeyCode::Char('G'), KeyModifiers::SHIFT),
            ("é", KeyCode::Char('é'), none),
            ("日", KeyCode::Char('日'), none),
            ("\r", KeyCode::Enter, none),
            ("\t", KeyCode::Tab, none),
            ("\x7f", KeyCode::Backspace, none),
            ("\x1b", KeyCode::Esc, none),
            ("\x04", KeyCode::Char('d'), KeyModifiers::CONTROL),
            ("\x1a", KeyCode::Char('z'), KeyModifiers::CONTROL),
            ("\x1b[A", KeyCode::Up, none),
            ("\x1bOB", KeyCode::Down, none),
            ("\x1b[5~", KeyCode::PageUp, none),
            ("\x1b[6~", KeyCode::PageDown, none),
            ("\x1b[H", KeyCode::Home, none),
            ("\x1b[1~", KeyCode::Home, none),
            ("\x1b[4~", KeyCode::End, none),
            ("\x1b[3~", KeyCode::Delete, none),
            ("\x1b[Z", KeyCode::BackTab, KeyModifiers::SHIFT),
            ("\x1b[1;5C", KeyCode::Right, KeyModifiers::CONTROL),
            ("\x1bx", KeyCode::Char('x'), KeyModifiers::ALT),
        ] {
            assert_eq!(keys(bytes.as_bytes()), [(code, modifiers)], "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_of_the_terminal_is_no_key_and_keys_around_it_are() {
        let answer = b"j\x1b]7501;?\x1b\\k\x1b[?62;4;22cq".as_slice();
        for cut in 0..answer.len() {
            // An escape at the end is a key.
            if answer[..cut].ends_with(b"\x1b") {
                continue;
            }
            let mut decoder = Decoder::default();
            let (before, after) = answer.split_at(cut);
            let mut inputs = decoder.decode(before);
            inputs.extend(decoder.decode(after));
            let keys = inputs.into_iter().map(|input| match input {
                Input::Key(key) => key.code,
                input => panic!("{input:?} is no key"),
            });
            assert_eq!(
                keys.collect::<Vec<_>>(),
                ['j', 'k', 'q'].map(KeyCode::Char),
                "{cut}"
            );
            assert!(decoder.answers.reads_reports && decoder.answers.are_over);
        }
        let bell = Decoder::default().decode(b"\x1b]7501;?\x07");
        assert!(bell.is_empty(), "{bell:?}");
        let typed = keys(b"\x1b]75j").into_iter().map(|key| key.0);
        assert!(typed.eq([']', '7', '5', 'j'].map(KeyCode::Char)));
        assert_eq!(keys(b"\x1b]\x1b[A").last().unwrap().0, KeyCode::Up);
    }

    #[test]
    fn keys_that_arrive_together_are_separated() {
        let codes = keys(b"\x1b[Bjj\x1b[6~q\x1b").into_iter().map(|key| key.0);
        let j = KeyCode::Char('j');
        let all = [
            KeyCode::Down,
            j,
            j,
            KeyCode::PageDown,
            KeyCode::Char('q'),
            KeyCode::Esc,
        ];
        assert!(codes.eq(all));
    }

    #[test]
    fn a_key_may_arrive_in_parts() {
        let mut decoder = Decoder::default();
        assert!(decoder.decode(b"\xc3").is_empty());
        assert!(
            matches!(&decoder.decode(b"\xa9")[..], [Input::Key(key)] if key.code == KeyCode::Char('é'))
        );
        assert!(decoder.decode(b"\x1b[200~two li").is_empty());
        let pasted = decoder.decode(b"nes\r\nx\x1b[201~");
        assert!(
            matches!(&pasted[..], [Input::Paste(text)] if text == "two lines\r\nx"),
            "{pasted:?}"
        );
    }

    #[test]
    fn a_paste_is_bounded_and_none_of_it_is_a_key() {
        let mut decoder = Decoder::default();
        decoder.decode(PASTE_BEGINS);
        for _ in 0..3 * PENDING_BYTES_MAX / 4096 {
            let inputs = decoder.decode(&[b'q'; 4096]);
            assert!(inputs.is_empty() && decoder.pending.len() <= PENDING_BYTES_MAX);
        }
        let inputs = decoder.decode(b"\x1b[201~j");
        let is_so = matches!(&inputs[..], [Input::Paste(_), Input::Key(key)] if key.code == KeyCode::Char('j'));
        assert!(is_so, "{} inputs", inputs.len());
    }

    proptest! {
        /// Also after the beginning of a key or of a paste.
        #[test]
        fn ctrl_c_is_read_after_any_bytes(
            paste in any::<bool>(),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            steps in prop::collection::vec(1_usize..20, 1..40),
        ) {
            let mut decoder = Decoder::default();
            if paste {
                decoder.decode(PASTE_BEGINS);
            }
            let mut rest = &bytes[..];
            for step in steps {
                let (now, later) = rest.split_at(step.min(rest.len()));
                decoder.decode(now);
                rest = later;
            }
            let inputs = decoder.decode(b"\x03");
            let is_ctrl_c = |input: &Input| {
                matches!(input, Input::Key(key) if key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL)
            };
            prop_assert!(matches!(&inputs[..], [input] if is_ctrl_c(input)), "{:?}", inputs);
        }
    }

    /// Set in the process that must panic.
    const CHILD: &str = "TD_TUI_PANICS";
    const NAME: &str = "face::tui::terminal::tests::a_panic_leaves_the_terminal_as_it_was";

    /// An exit code that the test harness does not use.
    const CODE: i32 = 42;

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        if std::env::var_os(CHILD).is_some() {
            panic_in_the_ui();
        }
        let (mut pty, child_end) = open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let before = tcgetattr(&pty).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .env("RUST_BACKTRACE", "0")
            .spawn(child_end)
            .unwrap();
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        // On Linux, reading a closed terminal returns an error.
        while let Ok(count @ 1..) = pty.read(&mut part) {
            bytes.extend_from_slice(&part[..count]);
        }
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(child.wait().unwrap().code(), Some(CODE), "{text}");
        let (shown, after) = text.rsplit_once("\u{1b}[?1049l").unwrap();
        assert!(shown.contains("\u{1b}[?1049h"), "{text:?}");
        assert!(after.starts_with("\u{1b}[?25h"), "{text:?}");
        // The message is on the primary screen, and no frame follows it.
        assert!(after.contains("on purpose"), "{text:?}");
        assert!(!after["\u{1b}[?25h".len()..].contains('\u{1b}'), "{text:?}");
        let now = tcgetattr(&pty).unwrap();
        let modes = |of: &rustix::termios::Termios| {
            (
                of.input_modes,
                of.output_modes,
                of.local_modes,
                of.control_modes,
            )
        };
        assert_eq!(modes(&now), modes(&before));
    }

    /// Draws frames in one thread and panics in another.
    fn panic_in_the_ui() -> ! {
        leave_on_panic();
        let mut terminal = Terminal::enter().unwrap();
        let area = Rect::new(0, 0, 80, 24);
        let mut show = |number: u32| {
            let mut buffer = Buffer::empty(area);
            let text = format!("frame {number}");
            buffer.set_string(0, 0, text, ratatui::style::Style::new());
            let cursor = None;
            terminal.show(Frame { buffer, cursor });
        };
        (0..100).for_each(&mut show);
        let panics = thread::spawn("td-tui-board", || panic!("on purpose")).unwrap();
        while !panics.is_finished() {
            show(1);
        }
        assert!(panics.join().is_err());
        (100..200).for_each(&mut show);
        drop(terminal);
        std::process::exit(CODE);
    }
}
