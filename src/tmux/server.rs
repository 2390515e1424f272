//! Which tmux server, and how it is asked: one short-lived tmux process a batch, with a deadline.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{self, ChildOutput, Invocation};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;
use crate::track::TmuxVersion;

/// How long one tmux process may take. A healthy server answers within milliseconds; one that
/// does not answer for this long is hung.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than anybody waits for anything.
const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// How much of one answer is kept. The gateway cuts its batches so that they stay far below; the
/// largest single look, 100,000 rows of 200 columns captured twice, has 40 MB.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What tmux says when there is no server any more, or never was.
const GONE: [&str; 4] = [
    "no server running on",
    "error connecting to",
    "server exited",
    "lost server",
];

/// A tmux server: the one that tmux itself would choose, or another by name or socket. Cheap to
/// clone. Nothing here ever starts a server.
///
/// ```
/// use td_observe::tmux::Server;
/// let server = Server::named("work");
/// assert_eq!(server.to_string(), "tmux -L work");
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    which: Which,
    env: Vec<(OsString, OsString)>,
    timeout: Duration,
    stop: Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Default,
    Named(OsString),
    Socket(PathBuf),
}

impl Default for Server {
    fn default() -> Self {
        Self::new(Which::Default)
    }
}

impl Server {
    /// The server called `name`, as `tmux -L`.
    pub fn named(name: impl Into<OsString>) -> Self {
        Self::new(Which::Named(name.into()))
    }

    /// The server at a socket, as `tmux -S`. A relative path starts at the present directory.
    pub fn socket(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // tmux runs in `/`. An empty path, the one kind that has no absolute form, is left for
        // tmux to refuse.
        Self::new(Which::Socket(
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        ))
    }

    fn new(which: Which) -> Self {
        // tmux runs in `/`, so a relative directory for its sockets must not stay relative.
        let env = std::env::var_os("TMUX_TMPDIR")
            .filter(|directory| Path::new(directory).is_relative())
            .and_then(|directory| std::path::absolute(directory).ok())
            .map(|directory| ("TMUX_TMPDIR".into(), directory.into_os_string()));
        Self {
            which,
            env: env.into_iter().collect(),
            timeout: TIMEOUT,
            stop: crossbeam_channel::never(),
        }
    }

    /// The same server, asked with another deadline than five seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same server, asked with a variable set in the environment of the tmux processes.
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same server; what is asked of it is broken off when `stop` is closed.
    pub(super) fn until(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Runs one tmux command and returns what it printed.
    ///
    /// # Errors
    /// `is_gone()` when there is no server; `is_timeout()` when it did not answer in time;
    /// `is_missing_program()` without tmux; otherwise what tmux complained about.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        clock: &Clock,
    ) -> Result<String> {
        let args = args.into_iter().map(|arg| literal(arg.as_ref())).collect();
        let finished = self.start(args, Vec::new(), clock)?;
        let status = finished.status;
        let answer = self.answer(finished)?;
        if status.success() {
            return Ok(answer.text);
        }
        let complaint = answer.complaints.trim();
        Err(Error::other(format!(
            "{self}: {}",
            if complaint.is_empty() {
                "the command failed and did not say why"
            } else {
                complaint
            }
        )))
    }

    /// Asks which version the server is of, and nothing else: no pane is named.
    ///
    /// # Errors
    /// `is_invalid_input()` when it is older than what is supported; otherwise as for
    /// [`Server::run`].
    pub fn check_version(&self, clock: &Clock) -> Result<TmuxVersion> {
        let text = self.run(["display-message", "-p", "#{version}"], clock)?;
        let version = TmuxVersion::parse(&text);
        self.accept(version, text.trim())?;
        Ok(version)
    }

    /// Refuses a version that is too old: before 3.3 a server ends when it is asked for times of a
    /// pane that has just vanished.
    pub(super) fn accept(&self, version: TmuxVersion, text: &str) -> Result<()> {
        if version.is_supported() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{self} is a server of tmux {text}, which observing can crash: {} or newer is needed \
             (a server is of the version that started it)",
            TmuxVersion::OLDEST
        )))
    }

    /// Waits until somebody signals a channel (`tmux wait-for -S`), or has signalled it already.
    ///
    /// # Errors
    /// As for [`Server::run`]; `is_gone()` also when the server ended, or it was stopped.
    pub(crate) fn wait_for(&self, channel: &str, stop: Stop, clock: &Clock) -> Result<()> {
        let server = self.clone().until(stop).with_timeout(LONGEST_WAIT);
        let mut args: Vec<OsString> = ["wait-for", "--", channel]
            .map(|arg| literal(arg.as_ref()))
            .into();
        args.extend([";", "list-sessions", "-F", SIGNALLED].map(OsString::from));
        let finished = server.start(args, Vec::new(), clock)?;
        let answer = server.answer(finished)?;
        if answer.text.starts_with(SIGNALLED) {
            return Ok(());
        }
        match answer.complaints.trim() {
            "" => Err(server.ended()),
            complaint => Err(Error::other(format!("{self}: {complaint}"))),
        }
    }

    /// Runs command lists, one a line, in one tmux process. An error in one line ends that line
    /// only and stands in the answer's complaints. Each batch prints at least a mark.
    ///
    /// # Errors
    /// `is_gone()`, `is_timeout()` and `is_missing_program()` as for [`Server::run`].
    pub(super) fn batch(&self, lines: String, clock: &Clock) -> Result<Answer> {
        // Over standard input there is no limit of 16 KB, and no other user can read it.
        let finished = self.start(
            vec!["source-file".into(), "-".into()],
            lines.into_bytes(),
            clock,
        )?;
        let answer = self.answer(finished)?;
        match answer.text.is_empty() && answer.is_silent() {
            true => Err(self.ended()),
            false => Ok(answer),
        }
    }

    /// The server was told to end while it was asked: the client then ends without a word.
    pub(super) fn ended(&self) -> Error {
        Error::gone(format!("{self} ended before it had answered"))
    }

    fn start(&self, args: Vec<OsString>, stdin: Vec<u8>, clock: &Clock) -> Result<ChildOutput> {
        // -N: never start a server; -u: whatever the locale, no names and text turned into `_`.
        let mut all: Vec<OsString> = vec!["-u".into(), "-N".into()];
        match &self.which {
            Which::Default => {}
            Which::Named(name) => all.extend(["-L".into(), name.clone()]),
            Which::Socket(path) => all.extend(["-S".into(), path.clone().into_os_string()]),
        }
        all.extend(args);
        let invocation = Invocation {
            program: "tmux".into(),
            args: all,
            env: self.env.clone(),
            directory: "/".into(),
            stdin,
            output_bytes_max: ANSWER_BYTES_MAX,
            timeout: self.timeout,
        };
        child::run_until_stopped(&invocation, clock, &self.stop).map_err(|error| {
            if error.is_timeout() {
                Error::timeout(format!("{self} did not answer within {:?}", self.timeout))
            } else {
                error
            }
        })
    }

    fn answer(&self, finished: ChildOutput) -> Result<Answer> {
        let complaints = String::from_utf8_lossy(&finished.stderr).into_owned();
        if !finished.status.success() && says_unusable(&complaints) {
            return Err(Error::invalid(format!("{self}: {}", complaints.trim())));
        }
        if !finished.status.success() && says_gone(&complaints) {
            return Err(Error::gone(format!("{self}: {}", complaints.trim())));
        }
        Ok(Answer {
            text: lossy(finished.stdout),
            complaints,
            truncated: finished.truncated,
            killed: finished.status.code().is_none(),
        })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.which {
            Which::Default => write!(f, "tmux"),
            Which::Named(name) => write!(f, "tmux -L {}", name.to_string_lossy()),
            Which::Socket(path) => write!(f, "tmux -S {}", path.display()),
        }
    }
}

/// What a batch printed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Standard error: what single commands complained about.
    pub(super) complaints: String,
    /// Whether the answer was too long and its end is missing.
    pub(super) truncated: bool,
    /// Whether somebody killed the client: that says nothing about the server.
    killed: bool,
}

impl Answer {
    /// Whether nothing explains why the end of the answer is missing, if it is.
    pub(super) fn is_silent(&self) -> bool {
        self.complaints.is_empty() && !self.truncated && !self.killed
    }
}

/// What is printed for each session when a channel was signalled. `wait-for` also comes back,
/// without complaint, when its server ends; but then there is no session any more.
const SIGNALLED: &str = "signalled";

/// Causes for which a socket cannot be used at all.
const UNUSABLE: [&str; 3] = [
    "(Permission denied)",
    "(File name too long)",
    "(Not a directory)",
];

/// Whether a complaint means that there is no server. Only its last line counts: a server that
/// dies says so last, and the lines before are about single commands.
fn says_gone(complaints: &str) -> bool {
    let last = complaints
        .trim_end()
        .lines()
        .next_back()
        .unwrap_or_default();
    GONE.iter().any(|text| last.starts_with(text))
}

/// Whether a complaint means that no server can ever be reached there.
fn says_unusable(complaints: &str) -> bool {
    let connecting = complaints.starts_with("error connecting");
    connecting && UNUSABLE.iter().any(|cause| complaints.contains(cause))
        || complaints.starts_with("socket name too long")
}

/// An argument that ends with a semicolon would begin another command.
fn literal(arg: &OsStr) -> OsString {
    match arg.as_bytes().strip_suffix(b";") {
        Some(start) => OsString::from_vec([start, b"\\;"].concat()),
        None => arg.to_owned(),
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    // Valid text, which is nearly all of it, is not copied.
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_server_that_is_gone() {
        for text in [
            "no server running on /tmp/tmux-0/x\n",
            "error connecting to /tmp/tmux-0/x (No such file or directory)",
            "server exited unexpectedly\n",
            "lost server\n",
            "can't find pane: %99\nlost server\n",
        ] {
            assert!(says_gone(text), "{text:?}");
        }
        for text in ["", "can't find pane: %99\n", "unknown command: lost"] {
            assert!(!says_gone(text), "{text:?}");
        }
    }

    #[test]
    fn a_semicolon_begins_no_command() {
        assert_eq!(literal(OsStr::new("a;")), "a\\;");
        assert_eq!(literal(OsStr::new("a;b")), "a;b");
    }

    #[test]
    fn a_relative_socket_is_made_absolute() {
        let Which::Socket(path) = Server::socket("here/sock").which else {
            panic!()
        };
        assert!(
            path.is_absolute() && path.ends_with("here/sock"),
            "{path:?}"
        );
    }
}
