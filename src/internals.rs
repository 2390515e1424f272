//! Items that only this repository's tests, benchmarks and fuzz targets use, without a promise of stability.

#[cfg(feature = "cli")]
pub mod fuzzing;

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

pub mod redact {
    pub use crate::redact::redactor::Redactor;
    pub use crate::redact::rules::TerminalStream;
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
