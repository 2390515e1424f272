//! A tmux server and its queries: one short-lived tmux process per batch, with a deadline.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::child::{self, ChildOutput, Invocation};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;
use crate::track::TmuxVersion;

/// The deadline of one tmux process. A healthy server replies within milliseconds; a server that does not
/// reply for this long hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of one output in bytes. The gateway keeps its batches far below; the largest single
/// capture, 100,000 rows of 200 columns captured twice, has 40 MB.
pub(super) const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A tmux server: the default server, or another one by name or socket. Cheap to clone. Its methods never
/// start a server.
///
/// ```
/// use td_observe::tmux::Server;
/// let server = Server::named("work");
/// assert_eq!(server.to_string(), "tmux -L work");
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    address: ServerAddress,
    env: Vec<(OsString, OsString)>,
    timeout: Duration,
    stop: Stop,
    /// Shared by all clones.
    captures: Arc<CaptureCounter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerAddress {
    Default,
    Named(OsString),
    Socket(PathBuf),
}

impl Default for Server {
    fn default() -> Self {
        Self::new(ServerAddress::Default)
    }
}

impl Server {
    /// Returns the server with this name, as `tmux -L` selects it.
    pub fn named(name: impl Into<OsString>) -> Self {
        Self::new(ServerAddress::Named(name.into()))
    }

    /// Returns the server at a socket, as `tmux -S` selects it. A relative path starts at the current
    /// directory.
    pub fn socket(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // tmux runs in `/`. Only an empty path has no absolute form, and tmux rejects it.
        Self::new(ServerAddress::Socket(
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        ))
    }

    fn new(address: ServerAddress) -> Self {
        // tmux runs in `/`, so a relative directory for its sockets is made absolute.
        let env = std::env::var_os("TMUX_TMPDIR")
            .filter(|directory| Path::new(directory).is_relative())
            .and_then(|directory| std::path::absolute(directory).ok())
            .map(|directory| ("TMUX_TMPDIR".into(), directory.into_os_string()));
        Self {
            address,
            env: env.into_iter().collect(),
            timeout: TIMEOUT,
            stop: crossbeam_channel::never(),
            captures: Arc::default(),
        }
    }

    /// Returns the counter of captures taken through this handle and its clones.
    pub(crate) fn captures(&self) -> &CaptureCounter {
        &self.captures
    }

    /// Sets the deadline of each query. Defaults to 5 s.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets a variable in the environment of the tmux processes.
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Cancels queries when `stop` is closed.
    pub(crate) fn until(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Runs one tmux command and returns its output.
    ///
    /// # Errors
    /// `is_gone()` if there is no server; `is_timeout()` if it did not reply in time; `is_missing_program()`
    /// without tmux; otherwise with tmux's error message.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        clock: &Clock,
    ) -> Result<String> {
        let args = args.into_iter().map(|arg| literal(arg.as_ref())).collect();
        self.text(self.start(args, Vec::new(), clock)?)
    }

    /// Returns the text that a tmux process printed, or its error message.
    pub(super) fn text(&self, finished: ChildOutput) -> Result<String> {
        let status = finished.status;
        let output = self.output(finished)?;
        if status.success() {
            return Ok(output.text);
        }
        let error = match output.errors.trim() {
            "" => "the command failed without an error message",
            error => error,
        };
        Err(Error::other(format!("{self}: {error}")))
    }

    /// Queries only the version of the server, because naming a pane can crash old servers.
    ///
    /// # Errors
    /// `is_invalid_input()` if it is not supported; otherwise those of [`Server::run`].
    #[cfg(any(feature = "cli", feature = "internals"))]
    pub(crate) fn check_version(&self, clock: &Clock) -> Result<TmuxVersion> {
        let text = self.run(["display-message", "-p", "#{version}"], clock)?;
        let version = TmuxVersion::parse(&text);
        self.accept(version, text.trim())?;
        Ok(version)
    }

    /// Rejects versions before 3.3, in which a query for the times of a pane that has just vanished crashes
    /// the server.
    pub(super) fn accept(&self, version: TmuxVersion, text: &str) -> Result<()> {
        if version.is_supported() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{self} is a server of tmux {text}, which observation can crash: {} or newer is needed \
             (a server keeps the version that started it)",
            TmuxVersion::OLDEST
        )))
    }

    /// Waits until a channel is signalled (`tmux wait-for -S`). Returns at once if it already is.
    ///
    /// # Errors
    /// Those of [`Server::run`]; `is_gone()` also when the server ends or `stop` is closed.
    pub(crate) fn wait_for(&self, channel: &str, stop: Stop, clock: &Clock) -> Result<()> {
        let server = self.clone().until(stop).with_timeout(Duration::MAX);
        let mut args: Vec<OsString> = ["wait-for", "--", channel]
            .map(|arg| literal(arg.as_ref()))
            .into();
        args.extend([";", "list-sessions", "-F", SIGNALLED].map(OsString::from));
        let finished = server.start(args, Vec::new(), clock)?;
        let output = server.output(finished)?;
        if output.text.starts_with(SIGNALLED) {
            return Ok(());
        }
        match output.errors.trim() {
            "" => Err(server.ended()),
            error => Err(Error::other(format!("{self}: {error}"))),
        }
    }

    /// Runs command lists, one per line, in one tmux process. An error ends only its line and appears in the
    /// output's errors. Each batch must print at least one mark.
    ///
    /// # Errors
    /// `is_gone()`, `is_timeout()` and `is_missing_program()` as for [`Server::run`].
    pub(super) fn batch(&self, lines: String, clock: &Clock) -> Result<Output> {
        // Unlike arguments, standard input is not limited to 16 KB, and no other user can read it.
        let finished = self.start(
            vec!["source-file".into(), "-".into()],
            lines.into_bytes(),
            clock,
        )?;
        let output = self.output(finished)?;
        if output.text.is_empty() && output.is_silent() {
            Err(self.ended())
        } else {
            Ok(output)
        }
    }

    /// Returns the error for a server that was killed during a query, after which the client ends silently.
    pub(super) fn ended(&self) -> Error {
        Error::gone(format!("{self} ended before it replied"))
    }

    /// Returns the options that select this server.
    pub(super) fn address_args(&self) -> Vec<OsString> {
        match &self.address {
            ServerAddress::Default => Vec::new(),
            ServerAddress::Named(name) => vec!["-L".into(), name.clone()],
            ServerAddress::Socket(path) => vec!["-S".into(), path.clone().into_os_string()],
        }
    }

    pub(super) fn start(
        &self,
        args: Vec<OsString>,
        stdin: Vec<u8>,
        clock: &Clock,
    ) -> Result<ChildOutput> {
        // -N: never start a server. -u: keep non-ASCII names and text in any locale.
        let mut all: Vec<OsString> = vec!["-u".into(), "-N".into()];
        all.extend(self.address_args());
        all.extend(args);
        let invocation = Invocation {
            program: "tmux".into(),
            args: all,
            env: self.env.clone(),
            directory: "/".into(),
            stdin,
            output_bytes_max: OUTPUT_BYTES_MAX,
            timeout: self.timeout,
        };
        child::run(&invocation, clock, &self.stop).map_err(|error| {
            if error.is_timeout() {
                Error::timeout(format!("{self} did not reply within {:?}", self.timeout))
            } else {
                error
            }
        })
    }

    pub(super) fn output(&self, finished: ChildOutput) -> Result<Output> {
        let errors = String::from_utf8_lossy(&finished.stderr).into_owned();
        if !finished.status.success() && is_unusable(&errors) {
            return Err(Error::invalid(format!("{self}: {}", errors.trim())));
        }
        if !finished.status.success() && is_gone(&errors) {
            return Err(Error::gone(format!("{self}: {}", errors.trim())));
        }
        Ok(Output {
            text: lossy(finished.stdout),
            errors,
            truncated: finished.truncated,
            killed: finished.status.code().is_none(),
        })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.address {
            ServerAddress::Default => write!(f, "tmux"),
            ServerAddress::Named(name) => write!(f, "tmux -L {}", name.to_string_lossy()),
            ServerAddress::Socket(path) => write!(f, "tmux -S {}", path.display()),
        }
    }
}

/// The output of a batch.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) text: String,
    /// Standard error: the error messages of individual commands.
    pub(super) errors: String,
    /// True if the output was too long and its end is missing.
    pub(super) truncated: bool,
    /// True if a signal killed the client, which indicates nothing about the server.
    killed: bool,
}

impl Output {
    /// Returns true if nothing explains a missing end of the output.
    pub(super) fn is_silent(&self) -> bool {
        self.errors.is_empty() && !self.truncated && !self.killed
    }
}

/// The text printed for each session after a channel was signalled. `wait-for` also returns without an error
/// when its server ends, but then there are no sessions.
const SIGNALLED: &str = "signalled";

/// Returns true if an error message means that no server runs. Only its last line counts, because earlier
/// lines concern individual commands.
fn is_gone(errors: &str) -> bool {
    let last = errors.trim_end().lines().next_back().unwrap_or_default();
    [
        "no server running on",
        "error connecting to",
        "server exited",
        "lost server",
    ]
    .iter()
    .any(|text| last.starts_with(text))
}

/// Returns true if an error message means that the socket can never be used.
fn is_unusable(errors: &str) -> bool {
    let connecting = errors.starts_with("error connecting");
    let causes = [
        "(Permission denied)",
        "(File name too long)",
        "(Not a directory)",
    ];
    connecting && causes.iter().any(|cause| errors.contains(cause))
        || errors.starts_with("socket name too long")
}

/// Escapes a trailing semicolon, which would begin another tmux command.
fn literal(arg: &OsStr) -> OsString {
    match arg.as_bytes().strip_suffix(b";") {
        Some(start) => OsString::from_vec([start, b"\\;"].concat()),
        None => arg.to_owned(),
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    // Nearly all output is valid and is therefore not copied.
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Counts captures from any thread.
#[derive(Debug, Default)]
pub(crate) struct CaptureCounter {
    captures: AtomicU64,
    micros: AtomicU64,
}

impl CaptureCounter {
    /// Adds the captures of one tmux process, which ran for `time`.
    pub(super) fn add(&self, captures: usize, time: Duration) {
        if captures == 0 {
            return;
        }
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.captures.fetch_add(captures as u64, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the number of captures, and the time that tmux took for them.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn total(&self) -> (u64, Duration) {
        let micros = self.micros.load(Ordering::Relaxed);
        let captures = self.captures.load(Ordering::Relaxed);
        (captures, Duration::from_micros(micros))
    }
}

/// The mark of one batch: 128 random bits as text.
#[derive(Clone, Debug)]
pub(crate) struct Nonce(String);

impl Nonce {
    pub(super) fn fresh() -> Self {
        // The keys of `RandomState` come from the system's random numbers. The hash of a constant under
        // unknown keys does not reveal the next one.
        let half = || RandomState::new().hash_one("td-observe");
        Self(format!("td{:016x}{:016x}", half(), half()))
    }

    #[cfg(any(test, all(feature = "cli", feature = "internals")))]
    pub(crate) fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Splits output into its sections, each with a tag letter after the mark and a text. `None` if text
    /// precedes the first mark.
    pub(super) fn sections<'a>(&self, output: &'a str) -> Option<Vec<Section<'a>>> {
        let mut parts = output.split(self.as_str());
        if !parts.next()?.is_empty() {
            return None;
        }
        parts
            .map(|part| {
                let tag = *part.as_bytes().first().filter(|byte| byte.is_ascii())?;
                Some((tag, &part[1..]))
            })
            .collect()
    }
}

/// The tag after a mark, and the text up to the next mark.
pub(super) type Section<'a> = (u8, &'a str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_is_recognized() {
        for text in [
            "no server running on /tmp/tmux-0/x\n",
            "error connecting to /tmp/tmux-0/x (No such file or directory)",
            "server exited unexpectedly\n",
            "lost server\n",
            "can't find pane: %99\nlost server\n",
        ] {
            assert!(is_gone(text), "{text:?}");
        }
        for text in ["", "can't find pane: %99\n", "unknown command: lost"] {
            assert!(!is_gone(text), "{text:?}");
        }
    }

    #[test]
    fn a_semicolon_begins_no_command() {
        assert_eq!(literal(OsStr::new("a;")), "a\\;");
        assert_eq!(literal(OsStr::new("a;b")), "a;b");
    }

    #[test]
    fn a_relative_socket_is_made_absolute() {
        let ServerAddress::Socket(path) = Server::socket("here/sock").address else {
            panic!()
        };
        assert!(
            path.is_absolute() && path.ends_with("here/sock"),
            "{path:?}"
        );
    }

    #[test]
    fn processes_without_a_capture_do_not_count() {
        let counter = CaptureCounter::default();
        counter.add(0, Duration::from_secs(9));
        counter.add(3, Duration::from_millis(4));
        counter.add(1, Duration::from_micros(1));
        assert_eq!(counter.total(), (4, Duration::from_micros(4001)));
    }

    #[test]
    fn marks_differ() {
        let (first, second) = (Nonce::fresh(), Nonce::fresh());
        assert_ne!(first.as_str(), second.as_str());
        assert_ne!(&first.as_str()[2..18], &first.as_str()[18..]);
    }

    #[test]
    fn output_is_split_at_its_marks_only() {
        let nonce = Nonce::fixed("NN");
        let sections = nonce.sections("NNh 1 2\nNMx\nNNe\n").unwrap();
        assert_eq!(sections, [(b'h', " 1 2\nNMx\n"), (b'e', "\n")]);
        assert_eq!(nonce.sections("xNNh"), None);
        assert_eq!(nonce.sections("NNäh"), None);
        assert_eq!(nonce.sections(""), Some(vec![]));
    }
}
