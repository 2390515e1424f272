//! Finds the files that an agent in a pane writes: its status file and its transcript.
//!
//! The places were determined with the agents themselves (Claude Code 2.1.330, Codex 0.169, Gemini CLI
//! 0.61, Qwen Code 0.24, aider 0.86, Copilot CLI 1.0, Kimi 1.44,
//! Vibe 3.0, Cline 3.0, Continue CLI 1.5).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use rustix::fs::OFlags;

use super::file::{FileVersion, read_small};
use crate::agent::{KnownAgent, ShownSessions, StatusFile, StreamFormat};
use crate::process::{RunningAgent, arguments};
use crate::timestamp::Timestamp;
use serde::Deserialize;

/// The most files of a directory that are examined; an agent keeps years of sessions in one.
const FILES_MAX: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// This file, which the agent's own files name.
    File(PathBuf),
    /// A file that does not exist yet.
    Nowhere,
    /// One of these, the newest first, or none: another agent in the same directory may have written
    /// it. The content of the screen decides.
    OneOf(Vec<PathBuf>),
}

/// The directory in which an agent keeps its sessions, and their format.
pub(super) struct Home {
    agent: KnownAgent,
    /// The directory in the user's home, unless the variable names another one.
    directory: &'static str,
    variable: &'static str,
    /// The directory below that of the variable.
    below_variable: &'static str,
    /// The directory of the sessions, below.
    sessions: &'static str,
    /// The name of the directories whose files are sessions; `None` for all.
    pub only_in: Option<&'static str>,
    format: StreamFormat,
    /// True if all sessions of the home can be followed, not only those of agents in panes.
    is_followed: bool,
}

/// The homes of agents. aider keeps its history in the project, and opencode a database.
const HOMES: [Home; 9] = [
    Home {
        agent: KnownAgent::Claude,
        directory: ".claude",
        variable: "CLAUDE_CONFIG_DIR",
        below_variable: "",
        sessions: "projects",
        only_in: None,
        format: StreamFormat::ClaudeTranscript,
        is_followed: true,
    },
    Home {
        agent: KnownAgent::Codex,
        directory: ".codex",
        variable: "CODEX_HOME",
        below_variable: "",
        sessions: "sessions",
        only_in: None,
        format: StreamFormat::CodexRollout,
        is_followed: true,
    },
    Home {
        agent: KnownAgent::Gemini,
        directory: ".gemini",
        variable: "GEMINI_CLI_HOME",
        below_variable: ".gemini",
        sessions: "tmp",
        only_in: Some("chats"),
        format: StreamFormat::GeminiSession,
        is_followed: true,
    },
    Home {
        agent: KnownAgent::Qwen,
        directory: ".qwen",
        variable: "QWEN_RUNTIME_DIR",
        below_variable: "",
        sessions: "projects",
        only_in: Some("chats"),
        format: StreamFormat::QwenSession,
        is_followed: true,
    },
    Home {
        agent: KnownAgent::Copilot,
        directory: ".copilot",
        variable: "COPILOT_HOME",
        below_variable: "",
        sessions: "session-state",
        only_in: None,
        format: StreamFormat::CopilotSession,
        is_followed: false,
    },
    Home {
        agent: KnownAgent::Kimi,
        directory: ".kimi",
        variable: "KIMI_SHARE_DIR",
        below_variable: "",
        sessions: "sessions",
        only_in: None,
        format: StreamFormat::KimiSession,
        is_followed: false,
    },
    Home {
        agent: KnownAgent::Vibe,
        directory: ".vibe",
        variable: "VIBE_HOME",
        below_variable: "",
        sessions: "logs/session",
        only_in: None,
        format: StreamFormat::VibeJournal,
        is_followed: false,
    },
    Home {
        agent: KnownAgent::Cline,
        directory: ".cline/data",
        variable: "CLINE_DATA_DIR",
        below_variable: "",
        sessions: "sessions",
        only_in: None,
        format: StreamFormat::ClineSession,
        is_followed: false,
    },
    Home {
        agent: KnownAgent::Cn,
        directory: ".continue",
        variable: "CONTINUE_GLOBAL_DIR",
        below_variable: "",
        sessions: "sessions",
        only_in: None,
        format: StreamFormat::CnSession,
        is_followed: false,
    },
];

/// Returns the directories in which Claude Code may keep its files: the user's, and the one that is configured.
#[cfg(feature = "cli")]
pub(super) fn claude_homes(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let followed = Home::followed(variable).into_iter();
    let claudes = followed.filter(|(home, _)| home.agent == KnownAgent::Claude);
    let configs = claudes.filter_map(|(_, sessions)| Some(sessions.parent()?.to_owned()));
    configs.collect()
}

impl Home {
    /// Returns the configured directory.
    fn given(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        Some(variable(self.variable)?.join(self.below_variable))
    }

    /// Returns the homes whose sessions can all be followed, and the directories of their sessions.
    pub fn followed(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<(&'static Self, PathBuf)> {
        let mut found: Vec<(&Self, PathBuf)> = Vec::new();
        for home in HOMES.iter().filter(|home| home.is_followed) {
            // The defaults are searched, too, because an agent may run without the variable.
            let default = variable("HOME").map(|user| user.join(home.directory));
            for config in [default, home.given(&variable)].into_iter().flatten() {
                let sessions = config.join(home.sessions);
                if found.iter().all(|(_, known)| *known != sessions) {
                    found.push((home, sessions));
                }
            }
        }
        found
    }
}

/// Returns the format in which an agent keeps its conversations; `None` if it keeps none in a readable file.
#[cfg(feature = "cli")]
pub(super) fn format_of(agent: KnownAgent) -> Option<StreamFormat> {
    if agent == KnownAgent::Aider {
        return Some(StreamFormat::AiderHistory);
    }
    let home = HOMES.iter().find(|home| home.agent == agent)?;
    Some(home.format)
}

/// The places of one agent's files.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub agent: KnownAgent,
    pub format: StreamFormat,
    config: PathBuf,
    /// The directory of the sessions, or aider's history.
    sessions: PathBuf,
}

impl Places {
    /// Returns the places of an agent; `None` if it keeps no conversation in a readable file, or lists sessions.
    pub fn of(agent: &RunningAgent) -> Option<Self> {
        if agent.shows == Some(ShownSessions::All) {
            return None;
        }
        let known = agent.program.known()?;
        // The title of its process replaces the environment of Kimi.
        let own = || std::env::var_os("HOME").filter(|_| known == KnownAgent::Kimi);
        let user = agent.home().map(Path::to_owned);
        let user = user.or_else(|| own().map(PathBuf::from))?;
        if known == KnownAgent::Aider {
            return Some(Self {
                agent: known,
                format: StreamFormat::AiderHistory,
                config: agent.directory.clone(),
                sessions: aider_history(&agent.directory),
            });
        }
        let home = HOMES.iter().find(|home| home.agent == known)?;
        let given = home.given(|name| agent.variable_path(name).map(Path::to_owned));
        let config = given.unwrap_or_else(|| user.join(home.directory));
        Some(Self {
            agent: known,
            format: home.format,
            sessions: config.join(home.sessions),
            config,
        })
    }

    /// Returns the path of the agent's status file; `None` for an agent without one.
    pub fn status_file(&self, agent: &RunningAgent) -> Option<PathBuf> {
        let name = format!("sessions/{}.json", agent.pid);
        (self.agent == KnownAgent::Claude).then(|| self.config.join(name))
    }

    /// Returns where the agent writes its conversation now. `status` is the content of its status
    /// file; `since` is the start of the agent.
    pub fn locate(
        &self,
        agent: &RunningAgent,
        status: Option<&StatusFile>,
        since: Timestamp,
    ) -> Located {
        let found = match (self.agent, status) {
            (KnownAgent::Claude, Some(status)) => self.claude_file(&status.cwd, &status.session_id),
            // Versions before 2.1.2xx have no status file.
            (KnownAgent::Claude, None) => {
                if let Some(ShownSessions::One(id)) = &agent.shows {
                    return self.of_job(id).map_or(Located::Nowhere, Located::File);
                }
                let directory = self.sessions.join(dashed(&agent.directory));
                return one_of(newer_than(&directory, "jsonl", since));
            }
            (KnownAgent::Codex, _) => {
                let days = latest_days(&self.sessions).into_iter();
                let mut files: Vec<PathBuf> = days
                    .flat_map(|day| newer_than(&day, "jsonl", since))
                    .collect();
                files.retain(|file| {
                    read_json(file, true).is_some_and(|head: CodexHead| {
                        head.payload.cwd.as_deref() == agent.directory.to_str()
                            // The source of a sub-agent is an object that names its parent.
                            && !head.payload.source.is_object()
                    })
                });
                return one_of(files);
            }
            (KnownAgent::Gemini, _) => {
                let Some(project) = gemini_project(&self.config, &agent.directory) else {
                    return Located::Nowhere;
                };
                let chats = self.sessions.join(project).join("chats");
                return one_of(newer_than(&chats, "jsonl", since));
            }
            (KnownAgent::Qwen, _) => {
                let chats = self.sessions.join(dashed(&agent.directory)).join("chats");
                let pids = agent.processes();
                let mut runtimes = newer_than(&chats, "json", since)
                    .into_iter()
                    .filter_map(|file| read_json::<QwenRuntime>(&file, false));
                runtimes
                    .find(|runtime| pids.contains(&runtime.pid))
                    .and_then(|runtime| session_file(&runtime.session_id))
                    .map(|name| chats.join(name))
            }
            (KnownAgent::Aider, _) => {
                let is_its = modified(&self.sessions).is_some_and(|at| at >= since);
                is_its.then(|| self.sessions.clone())
            }
            (KnownAgent::Copilot, _) => copilot_session(&self.sessions, &agent.processes())
                .map(|session| session.join("events.jsonl")),
            (KnownAgent::Kimi, _) => {
                let open = agent.open_files();
                let home = kimi_home(&open).unwrap_or(&self.config);
                let directory = md5_hex(agent.directory.as_os_str().as_bytes());
                let sessions = home.join("sessions").join(directory);
                let files = entries(&sessions).into_iter();
                let files = files.map(|session| session.join("wire.jsonl"));
                return one_of(written_since(files, since));
            }
            (KnownAgent::Vibe, _) => vibe_session(&self.sessions, &agent.open_files())
                .map(|session| session.join("journal")),
            (KnownAgent::Cline, _) => {
                let (hubs, own): (Vec<u32>, Vec<u32>) = agent
                    .processes()
                    .into_iter()
                    .partition(|pid| is_cline_hub(*pid));
                let written = cline_sessions(&self.sessions, since);
                return cline_session(written, &own, &agent.directory, |pid| {
                    hubs.contains(&pid) || is_cline_hub(pid)
                });
            }
            (KnownAgent::Cn, _) => {
                let mut files = newer_than(&self.sessions, "json", since);
                files.retain(|file| is_of_cn(file, &agent.directory));
                return one_of(files);
            }
            _ => None,
        };
        match found.filter(|file| file.exists()) {
            Some(file) => Located::File(file),
            None => Located::Nowhere,
        }
    }
}

impl Places {
    /// Returns the file of a session of Claude Code.
    fn claude_file(&self, cwd: &str, session: &str) -> Option<PathBuf> {
        let directory = self.sessions.join(dashed(Path::new(cwd)));
        session_file(session).map(|name| directory.join(name))
    }

    /// Returns the file of a background session of Claude Code, if it exists.
    fn of_job(&self, id: &str) -> Option<PathBuf> {
        let path = self.config.join("jobs").join(id).join("state.json");
        let job: ClaudeJob = is_plain(id).then(|| read_json(&path, false))??;
        let file = self.claude_file(&job.cwd, &job.session_id)?;
        file.is_file().then_some(file)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeJob {
    cwd: String,
    session_id: String,
}

#[derive(Deserialize)]
struct QwenRuntime {
    pid: u32,
    session_id: String,
}

#[derive(Deserialize)]
struct CodexHead {
    payload: CodexSession,
}

#[derive(Deserialize)]
struct CodexSession {
    cwd: Option<String>,
    #[serde(default)]
    source: serde_json::Value,
}

#[derive(Deserialize)]
struct GeminiProjects {
    projects: std::collections::HashMap<String, String>,
}

fn gemini_project(home: &Path, directory: &Path) -> Option<String> {
    let projects: GeminiProjects = read_json(&home.join("projects.json"), false)?;
    let name = projects.projects.get(directory.to_str()?)?;
    // Only a plain name is accepted, not a path, because another program writes the file.
    is_plain(name).then(|| name.clone())
}

/// Returns aider's history: in the root of the repository, or in the directory of its start.
fn aider_history(directory: &Path) -> PathBuf {
    let root = directory
        .ancestors()
        .find(|above| above.join(".git").exists());
    root.unwrap_or(directory).join(".aider.chat.history.md")
}

/// Returns the session that one of these processes has locked with `inuse.PID.lock`. The owner may be
/// a launcher's child. With several locks, the newest one belongs to the session that is open now.
fn copilot_session(sessions: &Path, pids: &[u32]) -> Option<PathBuf> {
    let locked = entries(sessions).into_iter().filter_map(|directory| {
        let locks = pids
            .iter()
            .map(|pid| directory.join(format!("inuse.{pid}.lock")));
        let at = locks.filter_map(|lock| modified(&lock)).max()?;
        Some((at, directory))
    });
    locked.max().map(|(_, directory)| directory)
}

/// Returns the directory of Kimi whose log is among these open files.
fn kimi_home(open: &[PathBuf]) -> Option<&Path> {
    let log = open.iter().find(|file| file.ends_with("logs/kimi.log"))?;
    log.parent()?.parent()
}

/// Returns the session whose lock is among these open files.
fn vibe_session(sessions: &Path, open: &[PathBuf]) -> Option<PathBuf> {
    let locks = fs::canonicalize(sessions.join("active")).ok()?;
    let is_lock = |file: &&PathBuf| {
        file.parent() == Some(&locks) && file.extension().is_some_and(|own| own == "lock")
    };
    let lock = open.iter().find(is_lock)?;
    Some(sessions.join("unified").join(lock.file_stem()?))
}

#[derive(Deserialize)]
struct ClineManifest {
    pid: u32,
    #[serde(default)]
    cwd: PathBuf,
}

/// Returns the messages of the sessions that Cline has begun, or gone on with, since `since`, the latest first, with
/// what it says about them.
fn cline_sessions(sessions: &Path, since: Timestamp) -> Vec<(PathBuf, ClineManifest)> {
    let manifests = entries(sessions).into_iter().filter_map(|session| {
        let name = session.file_name()?.to_str()?.to_owned();
        Some(session.join(format!("{name}.json")))
    });
    let mut written = written_since(manifests, since);
    written.sort_by_key(|manifest| std::cmp::Reverse(modified(manifest)));
    let read = written.into_iter().filter_map(|manifest| {
        let messages = manifest.with_extension("messages.json");
        let says = read_json(&manifest, false)?;
        messages.exists().then_some((messages, says))
    });
    read.collect()
}

/// Returns the latest session of these processes, else those that a hub has begun in the agent's directory.
fn cline_session(
    written: Vec<(PathBuf, ClineManifest)>,
    own: &[u32],
    directory: &Path,
    is_hub: impl Fn(u32) -> bool,
) -> Located {
    let is_own = |(_, says): &&(PathBuf, ClineManifest)| own.contains(&says.pid);
    if let Some((messages, _)) = written.iter().find(is_own) {
        return Located::File(messages.clone());
    }
    let of_hubs = written
        .into_iter()
        .filter(|(_, says)| says.cwd == directory && is_hub(says.pid));
    one_of(of_hubs.map(|(messages, _)| messages).collect())
}

/// Returns true for the process that Cline leaves in the background: it runs the sessions of each Cline that starts
/// later, and its id is in their files. It is a child of the Cline that started it until that ends.
fn is_cline_hub(pid: u32) -> bool {
    arguments(pid)
        .iter()
        .any(|argument| argument == "--cline-hub-daemon")
}

/// Returns true if a session of Continue CLI began in a directory, which it names before its messages.
fn is_of_cn(file: &Path, directory: &Path) -> bool {
    let head = read_small(file, OFlags::empty(), 64 * 1024).unwrap_or_default();
    let directory = serde_json::to_string(&directory.to_string_lossy()).unwrap_or_default();
    let named = format!("\"workspaceDirectory\": {directory}");
    memchr::memmem::find(&head, named.as_bytes()).is_some()
}

/// Returns the name that Claude Code and Qwen Code give to a directory: dashes for special characters.
fn dashed(directory: &Path) -> String {
    let text = directory.to_string_lossy();
    let dashed = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    dashed.collect()
}

fn session_file(id: &str) -> Option<String> {
    is_plain(id).then(|| format!("{id}.jsonl"))
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

fn one_of(mut files: Vec<PathBuf>) -> Located {
    if files.is_empty() {
        return Located::Nowhere;
    }
    files.sort_by_key(|file| std::cmp::Reverse(modified(file)));
    Located::OneOf(files)
}

/// Returns the time of the last write to a file.
pub(super) fn modified(file: &Path) -> Option<Timestamp> {
    FileVersion::of(&fs::metadata(file).ok()?).modified()
}

/// Returns the files of a directory with this extension that were written since `since`.
fn newer_than(directory: &Path, extension: &str, since: Timestamp) -> Vec<PathBuf> {
    let files = entries(directory).into_iter();
    let files = files.filter(|file| file.extension().is_some_and(|own| own == extension));
    written_since(files, since)
}

/// Returns the digest by which Kimi names the directory of the sessions of a directory.
fn md5_hex(text: &[u8]) -> String {
    let digest = Md5::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the paths in a directory; none if it cannot be read.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(FILES_MAX).map(|entry| entry.path()).collect()
}

fn written_since(files: impl Iterator<Item = PathBuf>, since: Timestamp) -> Vec<PathBuf> {
    // A session file may be dated this much before its process, because clocks of files are coarse.
    let since = Timestamp::from_micros(since.micros().saturating_sub(2_000_000));
    let is_new = |file: &PathBuf| modified(file).is_some_and(|at| at >= since);
    files.filter(is_new).collect()
}

/// Returns the two latest days with sessions, because a session may have begun before midnight. The
/// names `YYYY/MM/DD` sort chronologically.
fn latest_days(sessions: &Path) -> Vec<PathBuf> {
    let latest = |mut paths: Vec<PathBuf>| {
        paths.sort();
        paths.into_iter().rev().take(2)
    };
    let below = |directory: &Path| {
        let paths = entries(directory).into_iter();
        latest(paths.filter(|path| path.is_dir()).collect())
    };
    let months = below(sessions).flat_map(|year| below(&year));
    latest(months.flat_map(|month| below(&month)).collect()).collect()
}

/// Parses a file, or only its first line.
fn read_json<T: serde::de::DeserializeOwned>(file: &Path, is_first_line: bool) -> Option<T> {
    // The bytes of a file's first line that are read to identify the session. Codex writes up to 46 KB.
    let bytes = read_small(file, OFlags::empty(), 256 * 1024)?;
    let end = memchr::memchr(b'\n', &bytes).filter(|_| is_first_line);
    serde_json::from_slice(&bytes[..end.unwrap_or(bytes.len())]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in a directory, by their paths and contents.
    fn home(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (temp, root)
    }

    #[test]
    fn two_clines_in_one_directory_have_sessions_of_their_own() {
        let (_temp, root) = home(&[
            ("1_a/1_a.json", r#"{"pid":7,"status":"idle","cwd":"/w"}"#),
            ("1_a/1_a.messages.json", "{}"),
            ("2_b/2_b.json", r#"{"pid":8}"#),
            ("2_b/2_b.messages.json", "{}"),
            ("3_c/3_c.json", r#"{"pi"#),
            ("4_d/other.json", r#"{"pid":9}"#),
        ]);
        let of = |pid, since| {
            let written = cline_sessions(&root, since);
            cline_session(written, &[pid], Path::new("/w"), |_| false)
        };
        let since = Timestamp::default();
        let file = |name| Located::File(root.join(name));
        assert_eq!(of(7, since), file("1_a/1_a.messages.json"));
        assert_eq!(of(8, since), file("2_b/2_b.messages.json"));
        assert_eq!(of(9, since), Located::Nowhere);
        // A session of an earlier process with the same id.
        assert_eq!(of(7, Timestamp::from_micros(i64::MAX)), Located::Nowhere);
    }

    /// Cline 3.0.65 leaves a process that runs the sessions of each Cline that starts later.
    #[test]
    fn the_screen_tells_which_session_of_its_hub_a_cline_shows() {
        let (_temp, root) = home(&[
            ("1_a/1_a.json", r#"{"pid":7,"cwd":"/w"}"#),
            ("1_a/1_a.messages.json", "{}"),
            ("2_b/2_b.json", r#"{"pid":70,"cwd":"/w"}"#),
            ("2_b/2_b.messages.json", "{}"),
            ("3_c/3_c.json", r#"{"pid":70,"cwd":"/w"}"#),
            ("3_c/3_c.messages.json", "{}"),
            ("4_d/4_d.json", r#"{"pid":70,"cwd":"/other"}"#),
            ("4_d/4_d.messages.json", "{}"),
        ]);
        let of = |own: u32, directory: &str| {
            let written = cline_sessions(&root, Timestamp::default());
            cline_session(written, &[own], Path::new(directory), |pid| pid == 70)
        };
        let file = |name| root.join(name);
        assert_eq!(of(7, "/w"), Located::File(file("1_a/1_a.messages.json")));
        let Located::OneOf(mut files) = of(9, "/w") else {
            panic!("no choice")
        };
        files.sort();
        assert_eq!(
            files,
            [file("2_b/2_b.messages.json"), file("3_c/3_c.messages.json")]
        );
        assert_eq!(of(9, "/none"), Located::Nowhere);
    }

    #[test]
    fn the_lock_that_vibe_holds_names_its_session() {
        let (_temp, root) = home(&[("active/.registry", ""), ("active/s1.lock", "")]);
        let open = [
            root.join("vibe.log"),
            root.join("other/s2.lock"),
            root.join("active/s1.lock"),
        ];
        assert_eq!(vibe_session(&root, &open), Some(root.join("unified/s1")));
        assert_eq!(vibe_session(&root, &open[..2]), None);
        assert_eq!(vibe_session(&root.join("none"), &open), None);
    }

    #[test]
    fn the_log_that_kimi_writes_names_its_directory() {
        // Of RFC 1321.
        assert_eq!(md5_hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let open = [
            PathBuf::from("/dev/null"),
            PathBuf::from("/h/.kimi/logs/kimi.log"),
        ];
        assert_eq!(kimi_home(&open), Some(Path::new("/h/.kimi")));
        assert_eq!(kimi_home(&open[..1]), None);
    }

    #[test]
    fn a_session_of_cn_names_its_directory_before_its_messages() {
        let text =
            "{\n  \"title\": \"t\",\n  \"workspaceDirectory\": \"/w/a\",\n  \"history\": []\n}";
        let (_temp, root) = home(&[("s.json", text)]);
        let is_of = |directory: &str| is_of_cn(&root.join("s.json"), Path::new(directory));
        assert!(is_of("/w/a") && !is_of("/w") && !is_of("/w/a/b"));
        assert!(!is_of_cn(&root.join("none.json"), Path::new("/w/a")));
    }
}
