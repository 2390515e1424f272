//! What a program reports of its own status through its terminal: the Program Status Protocol, `OSC 7501` (pure).
//!
//! A report is `state=blocked:kind=permission:app=NAME:msg=BASE64`; it replaces the record of its `id`, or the one of the
//! program itself. This is revision 0.4 of the protocol, of November 2026.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::{AgentState, StateClaim, one_line};
use crate::event::{Background, ReportedChild};
use crate::text::from_base64;
#[cfg(feature = "cli")]
use crate::text::to_base64;

/// What a program asks its terminal, and what a terminal that reads reports answers: it knows every state and kind of the
/// protocol.
pub(crate) const REPORTS_QUESTION: &[u8] = b"\x1b]7501;?\x1b\\";

/// The name in this program's own reports. An observer does not read them: a terminal UI tells what the observer's rows
/// need, and the runs have rows of their own.
const OWN_APP: &str = "td-observe";

/// The most records of one terminal. The protocol's number.
const RECORDS_MAX: usize = 256;

/// The minimum time between two reports of progress: a face shows it in one line, and programs may report it for each
/// block that they copy.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 16;

/// A value of a report that has a limit of its own: its key, its bytes as written, and as text.
const VALUES: &[(&str, usize, usize)] = &[
    ("id", 128, 128),
    ("app", 32, 32),
    ("title", 256, 192),
    ("msg", 2732, 2048),
];

/// The most segments of an id.
const SEGMENTS_MAX: usize = 8;

/// The longest segment of an id, in bytes.
const SEGMENT_BYTES_MAX: usize = 32;

/// What a program has last reported about itself, or about one of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    state: AgentState,
    /// What a blocked program needs: `permission`, `question` or `auth`.
    kind: Option<&'static str>,
    progress: Option<u32>,
    app: Option<String>,
    title: Option<String>,
    message: Option<String>,
}

impl Record {
    /// Returns true if the record ends with its program, and at a prompt.
    fn is_busy(&self) -> bool {
        matches!(self.state, AgentState::Working | AgentState::Waiting)
    }
}

/// The reports of the programs in one terminal.
#[derive(Debug, Default)]
pub(crate) struct ProgramStatus {
    /// The records by their ids. That of the program itself has the empty id, and comes first.
    records: BTreeMap<String, Record>,
    /// The process group that reports.
    group: Option<u32>,
    /// True after a report until [`ProgramStatus::set_front`] names the group that it came from.
    is_new: bool,
    /// The progress, and the children, as last taken.
    taken: (Option<u32>, Vec<ReportedChild>),
    taken_at: Option<Instant>,
    due: Option<Instant>,
}

impl ProgramStatus {
    /// Takes a report. Returns false if it changes nothing: it is none, or breaks a limit.
    pub fn take(&mut self, report: &str, now: Instant) -> bool {
        let Some((id, record)) = read(report) else {
            return false;
        };
        let app = record.as_ref().and_then(|record| record.app.as_deref());
        if app == Some(OWN_APP) {
            return false;
        }
        match record {
            Some(record) => {
                let is_known = self.records.contains_key(&id);
                if !is_known && self.records.len() >= RECORDS_MAX {
                    // Children that are over have been shown.
                    self.records
                        .retain(|id, record| id.is_empty() || record.is_busy());
                }
                if !is_known && self.records.len() >= RECORDS_MAX {
                    return false;
                }
                self.records.insert(id, record);
                self.is_new = true;
            }
            None => self.retain(|known, _| !is_within(known, &id), now),
        }
        self.changed(now);
        true
    }

    /// Forgets every report, because the program has ended or the terminal is reset.
    pub fn clear(&mut self, now: Instant) {
        self.retain(|_, _| false, now);
    }

    /// Ends what was reported to go on, because a shell prompts. What was reported of an end stays.
    pub fn end_work(&mut self, now: Instant) {
        self.retain(|_, record| !record.is_busy(), now);
    }

    /// Returns true if the group that has reported last is not known.
    pub fn awaits_front(&self) -> bool {
        self.is_new
    }

    /// Takes the process group in the foreground. The reports of a group end when another one is there; beside a shell
    /// that reads commands, what was reported of an end stays. A stopped group is still there.
    pub fn set_front(&mut self, group: u32, is_shell: bool, stopped: &[u32], now: Instant) {
        if std::mem::take(&mut self.is_new) {
            self.group = Some(group);
        }
        let is_there = |reporter: u32| reporter == group || stopped.contains(&reporter);
        match self.group {
            Some(reporter) if is_there(reporter) => {}
            Some(_) if is_shell => self.end_work(now),
            Some(_) => self.clear(now),
            None => {}
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&str, &Record) -> bool, now: Instant) {
        let before = self.records.len();
        self.records.retain(|id, record| is_kept(id, record));
        if self.records.len() < before {
            self.changed(now);
        }
    }

    /// Returns the record that tells the program's state: one that needs the user, else that of the program itself, else
    /// the most urgent one of its children.
    fn leading(&self) -> Option<(&str, &Record)> {
        let urgency = |(id, record): &(&str, &Record)| match record.state {
            AgentState::Waiting => 0,
            _ if id.is_empty() => 1,
            AgentState::Working => 2,
            AgentState::Error => 3,
            AgentState::Done => 4,
            _ => 5,
        };
        let records = self.records.iter();
        records
            .map(|(id, record)| (id.as_str(), record))
            .min_by_key(urgency)
    }

    /// Returns the state that the reports claim.
    pub fn claim(&self) -> Option<StateClaim> {
        let (_, record) = self.leading()?;
        let message = record.message.as_deref();
        let asks = message.filter(|_| record.state == AgentState::Waiting);
        Some(StateClaim {
            state: record.state,
            is_confirmed: true,
            asks: asks.map(str::to_owned),
            detail: message.or(record.kind).unwrap_or_default().to_owned(),
            turn: 0,
            background: Background::default(),
        })
    }

    /// Returns the name that the program gives itself: that of the leading record, or of its nearest ancestor that has one.
    pub fn app(&self) -> Option<&str> {
        let (mut id, _) = self.leading()?;
        loop {
            let app = self
                .records
                .get(id)
                .and_then(|record| record.app.as_deref());
            if app.is_some() || id.is_empty() {
                return app;
            }
            id = id.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }

    /// Returns what the program says it does, while it works.
    pub fn says(&self) -> Option<&str> {
        let (_, record) = self.leading()?;
        let message = record.message.as_deref();
        message.filter(|_| record.state == AgentState::Working)
    }

    /// Returns when [`ProgramStatus::take_progress`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the program's progress in percent, and its children, if they have changed and that is due.
    pub fn take_progress(&mut self, now: Instant) -> Option<(Option<u32>, Vec<ReportedChild>)> {
        self.due.take_if(|due| *due <= now)?;
        let progress = self.leading().and_then(|(_, record)| record.progress);
        let children = self.records.iter().filter(|(id, _)| !id.is_empty());
        let children = children.map(|(id, record)| ReportedChild {
            id: id.clone(),
            state: record.state.into(),
            title: record.title.clone(),
            asks: record.message.clone(),
            progress: record.progress,
        });
        let progress = (progress, children.collect());
        if progress == self.taken {
            return None;
        }
        self.taken_at = Some(now);
        self.taken.clone_from(&progress);
        Some(progress)
    }

    fn changed(&mut self, now: Instant) {
        let next = self.taken_at.map(|at| at + PROGRESS_INTERVAL);
        let next = next.map_or(now, |next| next.max(now));
        self.due.get_or_insert(next);
    }
}

/// Returns this program's own report, for its terminal: that it is in a state, or, with `None`, that its reports end. The
/// message becomes one line, which is far below its limit.
#[cfg(feature = "cli")]
pub(crate) fn own_report(state: Option<AgentState>, message: Option<&str>) -> String {
    let name = match state {
        None => "clear",
        Some(AgentState::Idle | AgentState::Unknown) => "idle",
        Some(AgentState::Working) => "working",
        Some(AgentState::Waiting | AgentState::Suspended) => "blocked:kind=question",
        Some(AgentState::Done) => "done",
        Some(AgentState::Error | AgentState::Limited) => "error",
    };
    let mut report = format!("\x1b]7501;state={name}:app={OWN_APP}");
    let message = message.map(one_line).unwrap_or_default();
    if !message.is_empty() {
        report.push_str(":msg=");
        report.push_str(&to_base64(message.as_bytes()));
    }
    report.push_str("\x1b\\");
    report
}

/// Returns true for `id` itself and what is below it; below the empty one is everything.
fn is_within(known: &str, id: &str) -> bool {
    let rest = known.strip_prefix(id);
    rest.is_some_and(|rest| id.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Reads a report: its id, which is empty for the program itself, and its record, which is `None` for `clear`. Pairs that
/// are no pairs are left out. A value over its limit, or with a text that cannot be read, makes the whole report void.
fn read(report: &str) -> Option<(String, Option<Record>)> {
    let mut values = HashMap::new();
    for pair in report.split(':') {
        let Some((key, value)) = pair.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        let limit = VALUES.iter().find(|(limited, ..)| *limited == key);
        if limit.is_some_and(|(_, written, _)| value.len() > *written) {
            return None;
        }
        let is_value = value.bytes().all(is_value_byte);
        if is_value {
            values.insert(key, value);
        } else if key == "id" {
            // Without it, the report would be about the program itself.
            return None;
        }
    }
    let id = values.get("id").copied().unwrap_or_default();
    if values.contains_key("id") && !is_id(id) {
        return None;
    }
    let text = |key: &str| match values.get(key) {
        Some(value) if !value.is_empty() => decoded(key, value).map(Some),
        _ => Some(None),
    };
    let (title, message) = (text("title")?, text("msg")?);
    let state = match *values.get("state")? {
        "idle" => AgentState::Idle,
        "working" => AgentState::Working,
        "blocked" => AgentState::Waiting,
        "done" => AgentState::Done,
        "error" => AgentState::Error,
        "clear" => return Some((id.to_owned(), None)),
        _ => return None,
    };
    let kinds = ["permission", "question", "auth"].into_iter();
    let kind = values.get("kind").filter(|_| state == AgentState::Waiting);
    let mut kinds = kinds.filter(|known| kind == Some(known));
    let is_busy = matches!(state, AgentState::Working | AgentState::Waiting);
    let progress = values.get("progress").filter(|_| is_busy);
    let progress = progress.and_then(|percent| percent.parse().ok());
    let app = values.get("app").filter(|app| is_name(app));
    let record = Record {
        state,
        kind: kinds.next(),
        progress: progress.filter(|percent| *percent <= 100),
        app: app.map(|app| (*app).to_owned()),
        title,
        message,
    };
    Some((id.to_owned(), Some(record)))
}

/// Decodes a text within its limit into one line; `None` if it is no text.
fn decoded(key: &str, value: &str) -> Option<String> {
    let (.., max) = VALUES.iter().find(|(limited, ..)| *limited == key)?;
    let text = String::from_utf8(from_base64(value)?).ok()?;
    (text.len() <= *max).then(|| one_line(&text))
}

fn is_value_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.,+/=-".contains(&byte)
}

/// Returns true for a segment of an id, or the name of a program.
fn is_name(text: &str) -> bool {
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
    (1..=SEGMENT_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_one)
}

fn is_id(id: &str) -> bool {
    id.split('/').count() <= SEGMENTS_MAX && id.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use proptest::prelude::*;

    fn status(reports: &[&str]) -> ProgramStatus {
        let mut status = ProgramStatus::default();
        for report in reports {
            status.take(report, Clock::system().now());
        }
        status
    }

    fn claimed(reports: &[&str]) -> Option<(AgentState, String)> {
        let claim = status(reports).claim()?;
        Some((claim.state, claim.detail))
    }

    #[cfg(feature = "cli")]
    #[test]
    fn own_reports_are_read_by_terminals_and_not_by_an_observer() {
        use AgentState::{Done, Error, Idle, Waiting, Working};
        let body = |report: &str| {
            let report = report.strip_prefix("\x1b]7501;").unwrap();
            report.strip_suffix("\x1b\\").unwrap().to_owned()
        };
        for state in [Idle, Working, Waiting, Done, Error] {
            let report = body(&own_report(Some(state), Some("a\x1b]0;x\x07 b")));
            let (id, record) = read(&report).unwrap();
            let record = record.unwrap();
            assert_eq!((id.as_str(), record.state), ("", state));
            let message = record.message.unwrap();
            assert!(!message.contains('\x1b'), "{message:?}");
            assert!(!ProgramStatus::default().take(&report, Clock::system().now()));
        }
        let long = "é".repeat(3_000);
        let report = own_report(Some(Waiting), Some(&long));
        let (_, record) = read(&body(&report)).unwrap();
        assert!(record.unwrap().message.unwrap().starts_with("éééé"));
        assert_eq!(
            read(&body(&own_report(None, None))),
            Some((String::new(), None))
        );
        assert_eq!(
            own_report(Some(Working), None),
            "\x1b]7501;state=working:app=td-observe\x1b\\"
        );
    }

    #[cfg(feature = "cli")]
    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(from_base64(&to_base64(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn a_report_is_read_pair_by_pair() {
        use AgentState::{Done, Error, Idle, Waiting, Working};
        for (report, state, detail) in [
            ("state=idle", Idle, ""),
            ("state=working:progress=40:new=x", Working, ""),
            ("state=blocked:kind=permission", Waiting, "permission"),
            ("state=blocked:kind=nap:msg=SGk/", Waiting, "Hi?"),
            ("kind=auth:state=done:msg=SGk/:", Done, "Hi?"),
            (" state = error :msg=:none:=:Bad=1:msg=YQpi", Error, "a b"),
            ("state=idle:state=done", Done, ""),
            ("state=done:app=a b:title=*", Done, ""),
        ] {
            assert_eq!(
                claimed(&[report]),
                Some((state, detail.to_owned())),
                "{report}"
            );
        }
    }

    #[test]
    fn a_report_over_a_limit_is_void() {
        let a = |count: usize| "A".repeat(count);
        for report in [
            "".to_owned(),
            "?".to_owned(),
            "msg=SGk/".to_owned(),
            "state=asleep".to_owned(),
            "state=".to_owned(),
            format!("state=done:msg={}", a(2736)),
            // 2,049 bytes.
            format!("state=done:msg={}", a(2732)),
            format!("state=done:title={}", a(260)),
            format!("state=done:app={}", a(33)),
            format!("state=done:id={}", a(33)),
            format!("state=done:id={}", ["a"; 9].join("/")),
            format!("state=done:id={}", [a(32), a(32), a(32), a(32)].join("/")),
            format!("state=done:{}=1", "k".repeat(17)),
            "state=done:id=".to_owned(),
            "state=done:id=/a".to_owned(),
            "state=done:id=a b".to_owned(),
            "state=done:msg=A".to_owned(),
            "state=done:msg=AA=".to_owned(),
            "state=done:msg=AAA==".to_owned(),
            "state=done:msg=/w==".to_owned(),
        ] {
            assert_eq!(claimed(&[&report]), None, "{report}");
        }
        assert!(claimed(&[&format!("state=done:msg={}", a(2728))]).is_some());
        let deepest = format!("state=done:id={}", ["a"; 8].join("/"));
        assert!(claimed(&[&deepest]).is_some());
    }

    #[test]
    fn what_needs_the_user_leads() {
        use AgentState::{Done, Waiting, Working};
        let state = |reports: &[&str]| claimed(reports).map(|claim| claim.0);
        let child = "state=blocked:id=a/b";
        assert_eq!(state(&["state=working", child]), Some(Waiting));
        assert_eq!(
            state(&["state=working", child, "state=clear:id=a"]),
            Some(Working)
        );
        assert_eq!(state(&["state=working", "state=done:id=a"]), Some(Working));
        assert_eq!(
            state(&["state=done:id=b", "state=working:id=c"]),
            Some(Working)
        );
        assert_eq!(
            state(&["state=done", "state=clear:id=a", "state=done:id=ab"]),
            Some(Done)
        );
        assert_eq!(state(&["state=done", child, "state=clear"]), None);
        let app = status(&["state=working:app=x", child]);
        assert_eq!(app.app(), Some("x"));
    }

    #[test]
    fn children_that_are_over_make_room() {
        let mut status = status(&["state=working"]);
        let now = Clock::system().now();
        for id in 0..300 {
            assert!(status.take(&format!("state=done:id={id}"), now));
        }
        for id in 0..300 {
            let is_taken = status.take(&format!("state=working:id=w{id}"), now);
            assert_eq!(is_taken, id < 255);
        }
        assert!(status.take("state=blocked", now));
        let (_, children) = status.take_progress(now).unwrap();
        assert_eq!(children.len(), 255);
        assert!(status.take("state=working:progress=1", now));
        assert_eq!(status.take_progress(now), None, "at most once a second");
        let due = status.deadline().unwrap();
        assert_eq!(due, now + PROGRESS_INTERVAL);
        assert_eq!(status.take_progress(due).unwrap().0, Some(1));
    }

    #[test]
    fn a_report_ends_with_its_group() {
        use AgentState::{Done, Waiting};
        let now = Clock::system().now();
        let state = |report: &str, fronts: &[(u32, bool, &[u32])]| {
            let mut status = status(&[report]);
            for (group, is_shell, stopped) in fronts {
                status.set_front(*group, *is_shell, stopped, now);
            }
            status.claim().map(|claim| claim.state)
        };
        let none: &[u32] = &[];
        let (shell, job, next) = ((1, true, none), (2, false, none), (3, false, none));
        let waiting = Some(Waiting);
        assert_eq!(state("state=blocked", &[job, job]), waiting);
        assert_eq!(state("state=blocked", &[job, shell]), None);
        assert_eq!(state("state=blocked", &[job, (1, true, &[2])]), waiting);
        assert_eq!(state("state=done", &[job, shell]), Some(Done));
        assert_eq!(state("state=done", &[job, shell, next]), None);
        assert_eq!(
            state("state=blocked", &[shell, shell]),
            waiting,
            "typed at a prompt"
        );
        assert_eq!(state("state=blocked", &[shell, job]), None);
    }

    proptest! {
        #[test]
        fn any_report_is_accepted(reports in prop::collection::vec(".{0,60}|(state|id|msg|app)=[a-zA-Z0-9/=:]{0,40}", 0..20)) {
            let reports: Vec<&str> = reports.iter().map(String::as_str).collect();
            let status = status(&reports);
            let _ = (status.claim(), status.app(), status.says());
        }
    }
}
