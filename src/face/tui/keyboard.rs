//! Reads keys and pasted text from the terminal, without blocking.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crossterm::event::KeyEventKind;
use rustix::io::Errno;
use terminput::Event;
use terminput_crossterm::to_crossterm;

use super::effect::Input;
use super::terminal::open_nonblocking;

/// The bytes per read. A terminal in raw mode buffers at most 4 KiB.
const READ_BYTES: usize = 4096;

/// Ctrl-C. It ends a paste whose end never arrives; terminals usually remove it from pasted text.
const CTRL_C: u8 = 0x03;

/// The beginning and the end of pasted text (xterm's bracketed paste).
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The maximum number of bytes of one key or paste. No input needs a longer paste; its last bytes are kept.
const PENDING_BYTES_MAX: usize = 1024 * 1024;

/// The terminal, for reading.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// A second descriptor whose reads do not block; `None` if it cannot be opened.
    nonblocking: Option<File>,
    decoder: Decoder,
}

impl Keyboard {
    pub fn open() -> Self {
        Self {
            nonblocking: open_nonblocking(rustix::stdio::stdin(), rustix::fs::OFlags::RDONLY),
            decoder: Decoder::default(),
        }
    }

    /// Reads the available input; returns an empty list if there is none.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn read(&mut self) -> io::Result<Vec<Input>> {
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(self.as_fd(), &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(self.decoder.decode(&bytes[..count])),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Vec::new()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Discards the beginning of a key, because another program has used the terminal.
    pub fn forget(&mut self) {
        self.decoder = Decoder::default();
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
struct Decoder {
    /// The beginning of a key or of pasted text.
    pending: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, bytes: &[u8]) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut rest = bytes;
        while let [byte, after @ ..] = rest {
            rest = after;
            if *byte == CTRL_C {
                self.pending.clear();
            }
            self.pending.push(*byte);
            // Escape alone is a key; a terminal writes the bytes of a longer sequence at once.
            if self.pending == b"\x1b" && !rest.is_empty() {
                continue;
            }
            match Event::parse_from(&self.pending) {
                Ok(Some(event)) => inputs.extend(input(event)),
                Ok(None) if self.pending.len() < PENDING_BYTES_MAX => continue,
                // The rest of the paste must not be read as keys.
                Ok(None) if self.pending.starts_with(PASTE_BEGINS) => {
                    let kept = self.pending.len() - PASTE_ENDS.len();
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

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};
    use proptest::prelude::*;

    use super::*;

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
        for _ in 0..3 * PENDING_BYTES_MAX / READ_BYTES {
            let inputs = decoder.decode(&[b'q'; READ_BYTES]);
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
}
