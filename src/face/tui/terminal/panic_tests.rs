//! Tests a panic of a thread while the terminal is entered, in its own process and terminal.

use std::io::Read;

use pty_process::blocking::{Command, open};
use rustix::termios::tcgetattr;

use super::*;

/// Set in the process that must panic.
const CHILD: &str = "TD_TUI_PANICS";
const NAME: &str = "face::tui::terminal::panic_tests::a_panic_leaves_the_terminal_as_it_was";

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
