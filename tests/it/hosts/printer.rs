//! A session that prints numbered lines when it is told to.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::TmuxServer;

/// A session that prints numbered lines when it is told to.
pub struct Printer {
    orders: fs::File,
    pub pane: String,
    printed: u64,
}

impl Printer {
    /// Starts the session, which reads its orders from a pipe in this directory.
    #[track_caller]
    pub fn start(server: &TmuxServer, directory: &Path, session: &str) -> Self {
        let path = directory.join(format!("{session}.orders"));
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let script = format!(
            "while read -r first last; do seq -f 'line %07.0f' \"$first\" \"$last\"; done <{}",
            path.display()
        );
        let pane = server.new_session(session, 80, 24, &script);
        // Opens when the shell has opened its end.
        let orders = fs::OpenOptions::new().write(true).open(path).unwrap();
        Self {
            orders,
            pane,
            printed: 0,
        }
    }

    /// Prints the next lines, `line 0000001` and so on; does not wait for them.
    pub fn print(&mut self, count: u64) {
        let (first, last) = (self.printed + 1, self.printed + count);
        writeln!(self.orders, "{first} {last}").unwrap();
        self.printed = last;
    }

    /// Returns the number of the last line.
    pub fn printed(&self) -> u64 {
        self.printed
    }

    pub fn last_line(&self) -> String {
        format!("line {:07}", self.printed)
    }
}

/// Returns the number of a line of a printer.
pub fn number_of(line: &str) -> Option<u64> {
    line.strip_prefix("line ")?.trim_end().parse().ok()
}
