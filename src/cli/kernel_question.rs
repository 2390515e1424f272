//! Asks the questions of code (`input()`) on the terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::face::one_line;
use crate::kernel::Ask;
use crate::thread;

/// The time within which earlier output is shown before the question: revisions are merged for less time.
const SHOWN_WITHIN: Duration = Duration::from_millis(150);

/// The interval at which the end of the question is polled.
const CHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The answer at the end of the input; Jupyter's kernels raise `EOFError` from it.
const END: &str = "\u{4}";

/// Returns true if a user can answer.
pub(super) fn has_user() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Returns a callback that asks on the terminal.
pub(super) fn ask() -> Ask {
    Box::new(|question, is_over| {
        thread::park(Some(SHOWN_WITHIN));
        write(&format!(" ?   {}", one_line(&question.prompt)));
        let _hidden = question.is_password.then(HiddenInput::begin);
        let answer = read_line(is_over);
        if question.is_password || answer.is_none() {
            write("\n");
        }
        if answer.is_some() {
            // The kernel's output contains the question and its answer, and replaces this row.
            write("\x1b[1A\r\x1b[K");
        }
        answer
    })
}

/// Writes to standard output without the lock of `io::stdout`, which the printing thread holds.
fn write(text: &str) {
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            // A closed terminal sends a signal, which ends the program.
            Err(_) => return,
        }
    }
}

/// Reads a line from the terminal; `None` if the question is over.
fn read_line(is_over: &dyn Fn() -> bool) -> Option<String> {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    loop {
        if is_over() {
            return None;
        }
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !poll(&mut polled, Some(&CHECK)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        let mut chunk = [0; 4096];
        match rustix::io::read(&stdin, &mut chunk) {
            Ok(0) if bytes.is_empty() => return Some(END.to_owned()),
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(_) => return Some(END.to_owned()),
        }
        if bytes.contains(&b'\n') || bytes.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// Guard that disables the echo of the terminal until it is dropped.
struct HiddenInput(Option<Termios>);

impl HiddenInput {
    fn begin() -> Self {
        let stdin = io::stdin();
        let Ok(before) = tcgetattr(&stdin) else {
            return Self(None);
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        let is_set = tcsetattr(&stdin, OptionalActions::Flush, &hidden).is_ok();
        Self(is_set.then_some(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
