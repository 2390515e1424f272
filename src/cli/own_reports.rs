//! What `run`, `loop` and `kernel` report of themselves to their terminal (`OSC 7501`).
//!
//! They do not read their terminal, so they ask it nothing: its answer would be among what the user types ahead, which must
//! reach his shell or the command unchanged. The terminal's entry of terminfo says whether it reads reports (`Pst`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::options::Options;
use crate::agent::{AgentState, own_report};
use crate::process::is_typed_at;

/// The longest entry that is read. Those of ncurses have at most 32 KiB.
const ENTRY_BYTES_MAX: u64 = 64 * 1024;

/// The directories of terminfo after those of the user.
const DIRECTORIES: &[&str] = &[
    "/etc/terminfo",
    "/lib/terminfo",
    "/usr/share/terminfo",
    "/usr/local/share/terminfo",
];

/// The reports of a command, from its start to its end. They end with this, if no end was reported.
#[derive(Debug)]
pub(super) struct OwnReports {
    reporter: Reporter,
    has_ended: bool,
}

/// Reports to the terminal, if it reads reports.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    /// What the command does, in a word; `None` for a terminal that gets no reports.
    name: Option<String>,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// It has failed, with these words.
    Failed(String),
    /// The user has stopped it.
    Stopped,
}

impl OwnReports {
    /// Reports that a command of this name works. Other formats than text, and a silent command, report nothing.
    pub fn begin(options: &Options, name: String) -> Self {
        let is_shown = !options.json && !options.quiet;
        let reads = is_shown
            && io::stdout().is_terminal()
            && is_typed_at()
            && reads_reports(|name| std::env::var_os(name));
        let reporter = Reporter {
            name: reads.then_some(name),
        };
        reporter.works();
        Self {
            reporter,
            has_ended: false,
        }
    }

    #[cfg_attr(
        not(feature = "kernel"),
        expect(dead_code, reason = "only kernels ask")
    )]
    pub fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Reports the end. It stays beside the next prompt of the shell, unless the user has stopped the command.
    pub fn end(mut self, end: &End) {
        self.has_ended = true;
        match end {
            End::Done => self.reporter.report(Some(AgentState::Done), None),
            End::Failed(words) => self.reporter.report(Some(AgentState::Error), Some(words)),
            End::Stopped => self.reporter.report(None, None),
        }
    }
}

impl Drop for OwnReports {
    fn drop(&mut self) {
        if !self.has_ended {
            self.reporter.report(None, None);
        }
    }
}

impl Reporter {
    /// Reports that the command works.
    pub fn works(&self) {
        self.report(Some(AgentState::Working), None);
    }

    /// Reports that the command asks its user.
    #[cfg_attr(
        not(feature = "kernel"),
        expect(dead_code, reason = "only kernels ask")
    )]
    pub fn asks(&self, question: &str) {
        self.report(Some(AgentState::Waiting), Some(question));
    }

    fn report(&self, state: Option<AgentState>, words: Option<&str>) {
        let Some(name) = &self.name else { return };
        let message = words.map_or_else(|| name.clone(), |words| format!("{name}: {words}"));
        let report = own_report(
            state,
            Some(&message)
                .filter(|_| state.is_some())
                .map(|text| &**text),
        );
        // One write past the buffer of the standard library, whose lock the printer holds. A terminal that is gone needs no
        // report, and one that takes only a part of it has no room for more.
        let _ = rustix::io::write(rustix::stdio::stdout(), report.as_bytes());
    }
}

/// Returns true if the entry of the terminal says that it reads reports. A multiplexer is another terminal than its clients,
/// whose entry it may have.
fn reads_reports(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_within = ["TMUX", "STY", "ZELLIJ"]
        .iter()
        .any(|name| variable(name).is_some());
    let entry = variable("TERM").and_then(|term| entry(term.to_str()?, &variable));
    !is_within && entry.is_some_and(|entry| is_reader(&entry))
}

/// Returns true for a compiled entry that has the capability of the protocol, `Pst`, with its value. Names and values are
/// texts of their own at the end of the entry.
fn is_reader(entry: &[u8]) -> bool {
    let has = |text: &[u8]| memmem::find(entry, text).is_some();
    has(b"\0Pst\0") && has(b"\x1b]7501;%p1%s\x1b\\\0")
}

/// Returns the compiled entry of a terminal: the first in the directories of terminfo.
fn entry(term: &str, variable: &impl Fn(&str) -> Option<OsString>) -> Option<Vec<u8>> {
    let first = term
        .bytes()
        .next()
        .filter(|_| !term.contains('/') && !term.starts_with('.'))?;
    let listed = variable("TERMINFO_DIRS").unwrap_or_default();
    let own = variable("TERMINFO").map(PathBuf::from);
    let home = variable("HOME").map(|home| Path::new(&home).join(".terminfo"));
    let listed = std::env::split_paths(&listed).filter(|path| path.is_absolute());
    let directories = own.into_iter().chain(home).chain(listed);
    let mut directories = directories.chain(DIRECTORIES.iter().map(PathBuf::from));
    directories.find_map(|directory| {
        // Systems without distinct cases name the directories by the number of the letter.
        let places = [char::from(first).to_string(), format!("{first:x}")];
        let mut files = places.iter().map(|place| directory.join(place).join(term));
        let file = files.find_map(|path| File::open(path).ok())?;
        let mut entry = Vec::new();
        file.take(ENTRY_BYTES_MAX).read_to_end(&mut entry).ok()?;
        Some(entry)
    })
}
