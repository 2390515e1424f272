//! Finds the files in which an agent in a pane tells of itself: its status file and its transcript.
//!
//! The places were measured on the agents themselves (Claude Code 2.1.330, Codex 0.169, Gemini CLI
//! 0.61, Qwen Code 0.24, aider 0.86, Copilot CLI 1.0).

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::agent::{KnownAgent, StatusFile, StreamFormat};
use crate::process::RunningAgent;
use crate::timestamp::Timestamp;

/// Files of a directory that are looked at: an agent keeps years of sessions in one.
const FILES_MAX: usize = 20_000;

/// Bytes of a file's first line that are read to learn whose session it is. Codex writes up to 46 KB.
const HEAD_BYTES_MAX: u64 = 256 * 1024;

/// A session file may be dated this much before its process: clocks of files are coarse.
const BEFORE_START_MICROS: i64 = 2_000_000;

/// Where an agent's conversation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// In this file: the agent's own files name it.
    File(PathBuf),
    /// In a file that is not there yet.
    Nowhere,
    /// In one of these, if in any, the newest first: another agent in the same directory may have
    /// written it. What the screen shows decides.
    OneOf(Vec<PathBuf>),
}

/// The files of one agent.
#[derive(Clone, Debug)]
pub(super) struct Places {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Claude Code names its session in its status file.
    Claude { config: PathBuf },
    /// Codex has one rollout a session, in a directory a day.
    Codex { sessions: PathBuf },
    /// Gemini CLI has one file a session, in a directory a project.
    Gemini { home: PathBuf },
    /// Qwen Code names the process beside each session.
    Qwen { chats: PathBuf },
    /// aider appends to one file a directory.
    Aider { history: PathBuf },
    /// Copilot CLI has a directory a session, with a lock that names the process.
    Copilot { sessions: PathBuf },
}

impl Places {
    /// The places of an agent; `None` for one that keeps no conversation in a file that can be read.
    pub fn of(agent: &RunningAgent) -> Option<Self> {
        let home = agent.home()?;
        let config = |variable: &str, name: &str| {
            let given = agent.variable_path(variable).map(Path::to_owned);
            given.unwrap_or_else(|| home.join(name))
        };
        let kind = match agent.program.known()? {
            KnownAgent::Claude => Kind::Claude {
                config: config("CLAUDE_CONFIG_DIR", ".claude"),
            },
            KnownAgent::Codex => Kind::Codex {
                sessions: config("CODEX_HOME", ".codex").join("sessions"),
            },
            KnownAgent::Gemini => Kind::Gemini {
                home: match agent.variable_path("GEMINI_CLI_HOME") {
                    Some(place) => place.join(".gemini"),
                    None => home.join(".gemini"),
                },
            },
            KnownAgent::Qwen => Kind::Qwen {
                chats: config("QWEN_RUNTIME_DIR", ".qwen")
                    .join("projects")
                    .join(dashed(&agent.directory))
                    .join("chats"),
            },
            KnownAgent::Aider => Kind::Aider {
                history: aider_history(&agent.directory),
            },
            KnownAgent::Copilot => Kind::Copilot {
                sessions: config("COPILOT_HOME", ".copilot").join("session-state"),
            },
            // It keeps a database.
            KnownAgent::Opencode => return None,
        };
        Some(Self { kind })
    }

    /// The format of the conversation.
    pub fn format(&self) -> StreamFormat {
        match self.kind {
            Kind::Claude { .. } => StreamFormat::ClaudeTranscript,
            Kind::Codex { .. } => StreamFormat::CodexRollout,
            Kind::Gemini { .. } => StreamFormat::GeminiSession,
            Kind::Qwen { .. } => StreamFormat::QwenSession,
            Kind::Aider { .. } => StreamFormat::AiderHistory,
            Kind::Copilot { .. } => StreamFormat::CopilotSession,
        }
    }

    /// Returns whether sub-agents have files of their own beside the conversation.
    pub fn has_sub_agents(&self) -> bool {
        matches!(self.kind, Kind::Claude { .. })
    }

    /// The agent's status file; `None` for an agent that has none.
    pub fn status_file(&self, agent: &RunningAgent) -> Option<PathBuf> {
        let Kind::Claude { config } = &self.kind else {
            return None;
        };
        Some(config.join("sessions").join(format!("{}.json", agent.pid)))
    }

    /// Where the agent writes its conversation now. `status` is what its status file says; `since`,
    /// when the agent was started.
    pub fn locate(
        &self,
        agent: &RunningAgent,
        status: Option<&StatusFile>,
        since: Timestamp,
    ) -> Located {
        match &self.kind {
            Kind::Claude { config } => {
                let projects = config.join("projects");
                match status {
                    Some(status) => {
                        let directory = projects.join(dashed(Path::new(&status.cwd)));
                        let Some(name) = session_file(&status.session_id) else {
                            return Located::Nowhere;
                        };
                        existing(directory.join(name))
                    }
                    // Versions before 2.1.2xx have no status file.
                    None => {
                        let directory = projects.join(dashed(&agent.directory));
                        one_of(newer_than(&directory, "jsonl", since))
                    }
                }
            }
            Kind::Codex { sessions } => {
                let mut found = Vec::new();
                for day in latest_days(sessions) {
                    found.extend(newer_than(&day, "jsonl", since));
                }
                let is_its = |file: &PathBuf| {
                    head::<CodexHead>(file).is_some_and(|head| {
                        head.payload.cwd.as_deref() == agent.directory.to_str()
                            && !head.payload.is_sub_agent()
                    })
                };
                found.retain(is_its);
                one_of(found)
            }
            Kind::Gemini { home } => {
                let Some(project) = gemini_project(home, &agent.directory) else {
                    return Located::Nowhere;
                };
                let chats = home.join("tmp").join(project).join("chats");
                one_of(newer_than(&chats, "jsonl", since))
            }
            Kind::Qwen { chats } => {
                let pids = agent.processes();
                let of_process = newer_than(chats, "json", since)
                    .into_iter()
                    .find_map(|file| {
                        let runtime: QwenRuntime = read_json(&file)?;
                        let is_its = pids.contains(&runtime.pid);
                        is_its.then(|| {
                            session_file(&runtime.session_id).map(|name| chats.join(name))
                        })?
                    });
                of_process.map_or(Located::Nowhere, existing)
            }
            Kind::Aider { history } => match modified(history) {
                Some(at) if at >= since => Located::File(history.clone()),
                _ => Located::Nowhere,
            },
            Kind::Copilot { sessions } => match copilot_session(sessions, &agent.processes()) {
                Some(session) => existing(session.join("events.jsonl")),
                None => Located::Nowhere,
            },
        }
    }
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

impl CodexSession {
    /// A sub-agent's session has an object here that names its parent; a person's is a word.
    fn is_sub_agent(&self) -> bool {
        self.source.is_object()
    }
}

#[derive(Deserialize)]
struct GeminiProjects {
    projects: std::collections::HashMap<String, String>,
}

fn gemini_project(home: &Path, directory: &Path) -> Option<String> {
    let projects: GeminiProjects = read_json(&home.join("projects.json"))?;
    let name = projects.projects.get(directory.to_str()?)?;
    // A name, not a path: the file is another program's.
    is_plain(name).then(|| name.clone())
}

/// aider keeps its history in the root of the repository, or where it was started.
fn aider_history(directory: &Path) -> PathBuf {
    let root = directory
        .ancestors()
        .find(|above| above.join(".git").exists());
    root.unwrap_or(directory).join(".aider.chat.history.md")
}

/// The session that one of these processes has locked: `inuse.PID.lock`, of which a launcher's
/// child may be the owner. Where there are several, the lock that was made last is of the session
/// that is open now.
fn copilot_session(sessions: &Path, pids: &[u32]) -> Option<PathBuf> {
    let entries = fs::read_dir(sessions).ok()?;
    let directories = entries.take(FILES_MAX).flatten().map(|entry| entry.path());
    let locked = directories.filter_map(|directory| {
        let locks = pids
            .iter()
            .map(|pid| directory.join(format!("inuse.{pid}.lock")));
        let at = locks.filter_map(|lock| modified(&lock)).max()?;
        Some((at, directory))
    });
    locked.max().map(|(_, directory)| directory)
}

/// A directory as Claude Code and Qwen Code name it: what is no letter or digit is a dash.
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

fn existing(file: PathBuf) -> Located {
    match file.is_file() {
        true => Located::File(file),
        false => Located::Nowhere,
    }
}

fn one_of(mut files: Vec<PathBuf>) -> Located {
    if files.is_empty() {
        return Located::Nowhere;
    }
    files.sort_by_key(|file| std::cmp::Reverse(modified(file)));
    Located::OneOf(files)
}

/// When a file was written last.
pub(super) fn modified(file: &Path) -> Option<Timestamp> {
    let metadata = fs::metadata(file).ok()?;
    let micros = metadata.mtime().checked_mul(1_000_000)?;
    Some(Timestamp::from_micros(
        micros.checked_add(metadata.mtime_nsec() / 1_000)?,
    ))
}

/// The files of a directory with this extension that were written since.
fn newer_than(directory: &Path, extension: &str, since: Timestamp) -> Vec<PathBuf> {
    let since = Timestamp::from_micros(since.micros().saturating_sub(BEFORE_START_MICROS));
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let files = entries.take(FILES_MAX).flatten().map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|it| it == extension))
        .filter(|file| modified(file).is_some_and(|at| at >= since))
        .collect()
}

/// The two latest days for which there are sessions: one may have begun before midnight. Days are named
/// `YYYY/MM/DD`, which sorts as time does.
fn latest_days(sessions: &Path) -> Vec<PathBuf> {
    let below = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut directories: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        directories.sort();
        directories.reverse();
        directories.truncate(2);
        directories
    };
    let mut days: Vec<PathBuf> = below(sessions)
        .iter()
        .flat_map(|year| below(year))
        .flat_map(|month| below(&month))
        .collect();
    days.sort();
    days.reverse();
    days.truncate(2);
    days
}

/// The first line of a file, read as this.
fn head<T: serde::de::DeserializeOwned>(file: &Path) -> Option<T> {
    let mut line = Vec::new();
    let opened = fs::File::open(file).ok()?;
    BufReader::new(opened.take(HEAD_BYTES_MAX))
        .read_until(b'\n', &mut line)
        .ok()?;
    serde_json::from_slice(&line).ok()
}

fn read_json<T: serde::de::DeserializeOwned>(file: &Path) -> Option<T> {
    let mut bytes = Vec::new();
    fs::File::open(file)
        .ok()?
        .take(HEAD_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}
