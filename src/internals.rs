//! Items that only this repository's tests, benchmarks and fuzz targets use, without a promise of stability.

pub mod bus {
    pub use crate::bus::lossless_lane::LosslessLane;

    use crate::bus::EventBus;
    use crate::error::Result;

    pub fn subscribe_lossless(bus: &EventBus) -> Result<LosslessLane> {
        bus.subscribe_lossless()
    }
}

pub mod child {
    pub use crate::child::{ChildOutput, Invocation, run};
}

pub mod history {
    pub use crate::history::background::LogNoticeKind;
    pub use crate::history::line::parse_line;
    pub use crate::history::name::{decode_name, encode_name};
    pub use crate::history::open_run::RunIndex;
    pub use crate::history::tail::{Repair, read_tail};
    pub use crate::history::writer::{LogOptions, LogWriter};

    use crate::error::Result;
    use crate::history::{LogNotice, OpenRun, Query, RunDirectory, RunInfo};
    use crate::timestamp::Timestamp;

    pub fn open_run(run: &RunDirectory, info: RunInfo, ts: Timestamp) -> Result<OpenRun> {
        run.open(info, ts)
    }

    /// Writes the filters that the files of a run lack.
    ///
    /// # Errors
    /// If a file cannot be read, or a filter cannot be written.
    pub fn write_filters(run: &RunDirectory) -> Result<()> {
        crate::history::background::write_filters(run, &false.into())
    }

    pub fn kind_of(notice: &LogNotice) -> LogNoticeKind {
        notice.kind
    }

    pub fn text_regex(query: &Query) -> Option<&regex::Regex> {
        query.text_regex()
    }
}

pub mod recording {
    pub use crate::recording::raw::{RecordingWriter, RunRecorder};
}

#[cfg(feature = "report")]
pub mod report {
    use crate::event::Envelope;
    use crate::timestamp::Timestamp;

    /// Returns the report of the events of one run as JSON, for a terminal, as Markdown and as a page.
    pub fn in_all_formats(
        events: impl Iterator<Item = Envelope>,
        span: (Timestamp, Timestamp),
    ) -> [String; 4] {
        crate::face::report::in_all_formats(events, span)
    }
}

pub mod redact {
    pub use crate::redact::redactor::Redactor;
    pub use crate::redact::terminal::TerminalStream;
}

pub mod tmux {
    pub use crate::tmux::capture::{CaptureResult, CaptureSpec, PaneCapture, ResyncSpec, capture};
    pub use crate::tmux::digest::{BASELINE_ROWS, CAPTURE_ROWS_MAX, CaptureDigest, Margin};
    pub use crate::tmux::gateway::{Gateway, GatewayHandle};
    pub use crate::tmux::listing::{Listing, ServerIdentity};
    pub use crate::tmux::request::PendingReply;
    pub use crate::tmux::request::{
        CaptureRequest, ForegroundPrograms, PaneRequest, SessionRequest,
    };
    pub use crate::tmux::request::{PaneReply, SessionReply};
    pub use crate::tmux::state::PaneState;
    pub use crate::tmux::state::SessionId;

    use crate::clock::Clock;
    use crate::error::Result;
    use crate::tmux::{Server, Target};
    use crate::track::TmuxVersion;

    pub fn check_version(server: &Server, clock: &Clock) -> Result<TmuxVersion> {
        server.check_version(clock)
    }

    pub fn resolve(target: &Target, listing: &Listing) -> Vec<PaneState> {
        target.resolve(listing)
    }
}

pub mod track {
    pub use crate::track::{
        Capture, Change, GapReason, PaneNumbers, ProcessExit, RevisionThrottle, Row, SavedScreen,
        StreamTracker, SyncPoint, TerminalModes, Throttled, TmuxVersion, Tracker, unescape,
    };
}

#[cfg(feature = "cli")]
pub mod records {
    use std::io;
    use std::path::Path;

    use crate::agent::AgentEvent;
    use crate::observe::{RecordReader, Recorded, RecordedFact};
    use crate::redact::Rules;
    use crate::timestamp::Timestamp;

    /// What a record of a conversation says; notes as text.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fact {
        pub at: Option<Timestamp>,
        pub sub_agent: Option<String>,
        pub event: Result<AgentEvent, String>,
    }

    /// Reads what a conversation recorded in a span of time.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(
        path: &Path,
        agent: Option<&str>,
        (since, until): (Timestamp, Timestamp),
        take: &mut dyn FnMut(Fact),
    ) -> io::Result<()> {
        let reader = RecordReader {
            since,
            until,
            rules: &Rules::builtin(),
            is_stopped: &|| false,
        };
        reader.read(path, agent, &mut |recorded: Recorded<'_>| {
            take(Fact {
                at: recorded.at,
                sub_agent: recorded.sub_agent.map(str::to_owned),
                event: match recorded.fact {
                    RecordedFact::Event(event) => Ok(event),
                    RecordedFact::Note(note) => Err(format!("{note:?}")),
                },
            });
        })
    }
}

#[cfg(feature = "cli")]
pub mod fuzzing {
    //! Non-public parsers of foreign input, as functions of bytes, for the fuzz targets in `tests/fuzz`.

    use std::io::{self, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::time::Duration;

    use crate::agent::{HookChange, HookFile, HookInput, ProgramStatus, StatusFile};
    use crate::api::client::read_answer;
    use crate::api::http::{Head, Request};
    use crate::api::{EventReader, EventSource, Unavailable};
    #[cfg(feature = "serve")]
    use crate::api::{Gate, PublicUrl, Token};
    use crate::clock::Clock;
    use crate::feed::{Next, StreamCursor};
    use crate::redact::Rules;
    use crate::timestamp::Timestamp;
    use crate::tmux::capture::{self, CaptureResult, CaptureSpec};
    use crate::tmux::listing::{self, Listing, ServerIdentity};
    use crate::tmux::server::Nonce;

    /// The mark in tmux's output; real marks are random.
    const MARK: &str = "NN";

    /// The process id of the tmux server.
    const SERVER_PID: u32 = 42;

    /// The time to wait for the rest of a stream.
    const WAIT: Duration = Duration::from_millis(1);

    /// Returns the file of a session after the input of a hook; `None` if the session has no file. An unreadable
    /// file counts as missing.
    pub fn hook_file_after(
        input: &[u8],
        before: Option<&[u8]>,
        now: Timestamp,
        rules: &Rules,
    ) -> Option<Vec<u8>> {
        let kept = before.and_then(HookFile::read);
        let unchanged = kept.as_ref().and(before).map(<[u8]>::to_vec);
        let Some(input) = HookInput::read(input) else {
            return unchanged;
        };
        match input.change(kept.as_ref(), now, rules) {
            HookChange::Nothing => unchanged,
            HookChange::Keep(file) => serde_json::to_vec(&file).ok(),
            HookChange::Remove => None,
        }
    }

    /// Returns the state and the question in a file written by a hook.
    pub fn hook_claim(file: &[u8]) -> Option<(String, Option<String>)> {
        let claim = HookFile::read(file)?.claim()?;
        Some((claim.state.to_string(), claim.asks))
    }

    /// Returns the state in an agent's status file.
    pub fn status_file_state(file: &[u8]) -> Option<String> {
        let file = StatusFile::read(file)?;
        let _ = file.is_of(file.pid, 0);
        file.state().map(|state| state.to_string())
    }

    /// Returns the length of the head of a request to the API and the decoded parts of its path; `None` for an
    /// incomplete head, and the problem for invalid bytes.
    pub fn request_head(bytes: &[u8]) -> Option<Result<(usize, Vec<String>), String>> {
        match Request::read(bytes) {
            Head::Complete(request, length) => {
                let _ = (request.list("run"), request.parameter("since"));
                let _ = request
                    .header("last-event-id")
                    .map(str::parse::<StreamCursor>);
                Some(Ok((length, request.segments())))
            }
            Head::Partial => None,
            Head::Invalid(why) => Some(Err(why)),
            Head::TooLarge => Some(Err("too large".to_owned())),
        }
    }

    /// Returns the cursor of a stream as it is serialized; `None` for other text.
    pub fn cursor(text: &str) -> Option<String> {
        let cursor: StreamCursor = text.parse().ok()?;
        Some(cursor.to_string())
    }

    /// Returns the status and the body of a response of the observer.
    ///
    /// # Errors
    /// If the response is incomplete or invalid.
    pub fn answer(bytes: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let answer = read_answer(bytes)?;
        Ok((answer.status, answer.body))
    }

    /// Returns the items in a stream of the observer that arrives in pieces. Each piece arrives after the wait
    /// for the previous one has ended.
    ///
    /// # Errors
    /// If a socket fails, or does not hold the pieces.
    pub fn stream_items(pieces: &[&[u8]]) -> io::Result<Vec<String>> {
        let clock = Clock::system();
        let mut reader = EventReader::new(Path::new("none"), "/".to_owned(), &clock);
        let (ours, mut theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(WAIT))?;
        // All pieces fit into the buffer of the socket; otherwise, the write would block forever.
        theirs.set_nonblocking(true)?;
        let (mut items, mut ours) = (Vec::new(), Some(ours));
        for (at, piece) in pieces.iter().enumerate() {
            theirs.write_all(piece)?;
            let is_last = at + 1 == pieces.len();
            if is_last {
                theirs.shutdown(std::net::Shutdown::Write)?;
            }
            if let Some(ours) = ours.take_if(|_| is_last || has_head(&pieces[..=at]))
                && reader.begin(ours).is_err()
            {
                return Ok(items);
            }
            while ours.is_none() {
                match reader.next(clock.now() + WAIT) {
                    Ok(Next::Event(envelope)) => {
                        items.push(serde_json::to_string(&*envelope).map_err(io::Error::other)?);
                    }
                    Ok(Next::Missed(missed)) => items.push(format!("missed {missed}")),
                    Ok(Next::Timeout | Next::End) => break,
                    Err(Unavailable::Broken(_) | Unavailable::Refused(_)) => return Ok(items),
                }
            }
        }
        Ok(items)
    }

    /// Returns true if the head of the response is complete; it is read in one wait.
    fn has_head(pieces: &[&[u8]]) -> bool {
        let bytes = pieces.concat();
        bytes.windows(4).any(|four| four == b"\r\n\r\n")
    }

    /// Returns the outputs that a kernel publishes in pieces, as text and as a notebook stores them.
    #[cfg(feature = "kernel")]
    pub fn kernel_published(pieces: &[&[u8]]) -> (Vec<String>, Vec<serde_json::Value>) {
        crate::kernel::fuzzed::published(pieces)
    }

    /// Returns the bytes on a kernel's socket: its handshake and a message of these frames.
    #[cfg(feature = "kernel")]
    pub fn kernel_socket(frames: &[&[u8]]) -> Vec<u8> {
        crate::kernel::fuzzed::socket_bytes(frames)
    }

    /// Returns an address in a connection file.
    #[cfg(feature = "kernel")]
    pub fn kernel_connection(text: &str) -> Option<String> {
        crate::kernel::fuzzed::connection(text)
    }

    /// Returns the number of words in the command of a kernel specification.
    #[cfg(feature = "kernel")]
    pub fn kernel_spec_words(text: &str) -> Option<usize> {
        crate::kernel::fuzzed::spec_words(text)
    }

    /// Returns a notebook without its outputs.
    #[cfg(feature = "kernel")]
    pub fn kernel_notebook(text: &str) -> Option<String> {
        crate::kernel::fuzzed::notebook(text)
    }

    /// Returns the status with which a server over TCP answers the head of a request: that of its refusal, or 200;
    /// `None` for an incomplete or invalid head.
    #[cfg(feature = "serve")]
    pub fn tcp_status(
        bytes: &[u8],
        token: &str,
        public_url: Option<&str>,
        is_open: bool,
    ) -> Option<u16> {
        let Head::Complete(request, _) = Request::read(bytes) else {
            return None;
        };
        let gate = Gate {
            token: Token::parse(token).ok()?,
            public: public_url.and_then(|url| PublicUrl::parse(url).ok()),
            is_open,
        };
        let placed = gate.check_place(&request);
        let checked = placed.and_then(|()| gate.check_token(&request));
        Some(checked.err().map_or(200, |refusal| refusal.status()))
    }

    /// Returns the answer to a line of an MCP client, if it is answered at once.
    #[cfg(feature = "mcp")]
    pub fn mcp_answer(line: &[u8]) -> Option<String> {
        crate::face::mcp::fuzzed::answer(line).map(|answer| answer.to_string())
    }

    /// Returns the number of children that a program reports by `OSC 7501`, and all texts that are shown of its reports.
    pub fn status_reports<'a>(reports: impl Iterator<Item = &'a str>) -> (usize, Vec<String>) {
        let (mut status, now) = (ProgramStatus::default(), Clock::system().now());
        for report in reports {
            status.take(report, now);
        }
        let mut texts: Vec<String> = [status.app(), status.says()]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect();
        if let Some(claim) = status.claim() {
            texts.extend(claim.asks);
            texts.push(claim.detail);
        }
        let (_, children) = status.take_progress(now).unwrap_or_default();
        for child in &children {
            texts.push(child.id.clone());
            texts.extend(child.title.clone().into_iter().chain(child.asks.clone()));
        }
        (children.len(), texts)
    }

    /// Returns the names in what the observer of another host answers; `None` for other bytes.
    #[cfg(feature = "hosts")]
    pub fn remote_names(host: &str, line: &[u8]) -> Option<crate::hosts::fuzzed::RemoteNames> {
        crate::hosts::fuzzed::names(&host.parse().ok()?, line)
    }

    /// Returns the results of captures in the output of a tmux server, one for each spec.
    pub fn captures(output: &str, specs: &[CaptureSpec]) -> Vec<CaptureResult> {
        let known = ServerIdentity {
            pid: SERVER_PID,
            ..ServerIdentity::default()
        };
        capture::parse(&Nonce::fixed(MARK), &known, output, specs)
    }

    /// Returns the listing in the output of a tmux server.
    pub fn listing(output: &str) -> Option<Listing> {
        listing::parse(&Nonce::fixed(MARK), output)
    }
}
