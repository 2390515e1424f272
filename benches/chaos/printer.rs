//! The program in the panes: this binary, started again with a hidden argument. It prints numbered lines of any length,
//! some of them with colours, in bursts, until a file tells it to rest.

use std::io::{Write, stdout};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::Dice;

const ARGUMENT: &str = "print-in-chaos";

/// Between two bursts.
const PAUSE: Duration = Duration::from_millis(50);

/// More than any pid: Linux has at most 4,194,304.
const PIDS: u64 = 10_000_000;

/// The number of a printer, whose last seven digits are its pid. Pids return, within an hour of chaos, but none returns
/// in the second in which its last process began: the kernel gives all others first.
pub fn tag(pid: u32, began: Duration) -> u64 {
    began.as_secs() * PIDS + u64::from(pid)
}

/// A printed line. Its end tells a whole line from the beginning of one.
pub fn line(tag: u64, number: u64) -> String {
    let filling = (number * 7919 + tag) % 180;
    format!("L{tag} {number} {};", "x".repeat(filling as usize))
}

/// Returns the tag and the number of a line; the error is false for a line that no printer prints.
pub fn parse(text: &str) -> Result<(u64, u64), bool> {
    let mut words = text.strip_prefix('L').ok_or(false)?.splitn(3, ' ');
    let numbers = (|| {
        let tag: u64 = words.next()?.parse().ok()?;
        let number: u64 = words.next()?.parse().ok()?;
        Some((tag, number))
    })();
    let (tag, number) = numbers.ok_or(true)?;
    if line(tag, number) == text {
        Ok((tag, number))
    } else {
        Err(true)
    }
}

/// Returns the command of a pane that prints about so many lines a second until the file `rest` exists.
pub fn command(lines_a_second: u64, rest: &Path) -> String {
    let binary = std::env::current_exe().unwrap();
    format!(
        "exec '{}' {ARGUMENT} {lines_a_second} '{}'",
        binary.display(),
        rest.display()
    )
}

/// Prints, and returns true if this process was started for it.
pub fn has_run() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rate, rest] = arguments.as_slice() else {
        return false;
    };
    if name == ARGUMENT {
        print(rate.parse().unwrap(), Path::new(rest));
    }
    name == ARGUMENT
}

fn print(rate: u64, rest: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let tag = tag(std::process::id(), now);
    let mut dice = Dice(tag);
    let mut number = 0;
    while !rest.exists() {
        let mut text = String::new();
        for _ in 0..dice.roll(rate / 10 + 2) {
            number += 1;
            let line = line(tag, number);
            match dice.roll(8) {
                0 => text.push_str(&format!("\x1b[1;32m{line}\x1b[0m\n")),
                _ => text.push_str(&format!("{line}\n")),
            }
        }
        // A pane that is gone is no error of this program.
        if stdout()
            .write_all(text.as_bytes())
            .and_then(|()| stdout().flush())
            .is_err()
        {
            return;
        }
        thread::sleep(PAUSE);
    }
    loop {
        thread::park();
    }
}
