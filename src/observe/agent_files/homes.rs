//! Finds the files that an agent in a pane writes: its status file and its transcript.
//!
//! The places were determined with the agents themselves (Claude Code 2.1.330, Codex 0.169, Gemini CLI
//! 0.61, Qwen Code 0.24, aider 0.86, Copilot CLI 1.0).

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::file::FileVersion;
use crate::agent::{KnownAgent, StatusFile, StreamFormat};
use crate::process::RunningAgent;
use crate::timestamp::Timestamp;
use serde::Deserialize;

/// The most files of a directory that are examined; an agent keeps years of sessions in one.
const FILES_MAX: usize = 20_000;

/// The bytes of a file's first line that are read to identify the session. Codex writes up to 46 KB.
const HEAD_BYTES_MAX: u64 = 256 * 1024;

/// A session file may be dated this much before its process, because clocks of files are coarse.
const BEFORE_START_MICROS: i64 = 2_000_000;

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

/// The files of one agent.
#[derive(Clone, Debug)]
pub(super) enum Places {
    /// Claude Code names its session in its status file.
    Claude { config: PathBuf },
    /// Codex has one rollout per session, in one directory per day.
    Codex { sessions: PathBuf },
    /// Gemini CLI has one file per session, in one directory per project.
    Gemini { home: PathBuf },
    /// Qwen Code has a file beside each session that names the process.
    Qwen { chats: PathBuf },
    /// aider appends to one file per directory.
    Aider { history: PathBuf },
    /// Copilot CLI has one directory per session, with a lock that names the process.
    Copilot { sessions: PathBuf },
}

impl Places {
    /// Returns the places of an agent; `None` if it keeps no conversation in a readable file.
    pub fn of(agent: &RunningAgent) -> Option<Self> {
        let home = agent.home()?;
        let config = |variable: &str, name: &str| {
            let given = agent.variable_path(variable).map(Path::to_owned);
            given.unwrap_or_else(|| home.join(name))
        };
        Some(match agent.program.known()? {
            KnownAgent::Claude => Self::Claude {
                config: config("CLAUDE_CONFIG_DIR", ".claude"),
            },
            KnownAgent::Codex => Self::Codex {
                sessions: config("CODEX_HOME", ".codex").join("sessions"),
            },
            KnownAgent::Gemini => Self::Gemini {
                home: match agent.variable_path("GEMINI_CLI_HOME") {
                    Some(place) => place.join(".gemini"),
                    None => home.join(".gemini"),
                },
            },
            KnownAgent::Qwen => Self::Qwen {
                chats: config("QWEN_RUNTIME_DIR", ".qwen")
                    .join("projects")
                    .join(dashed(&agent.directory))
                    .join("chats"),
            },
            KnownAgent::Aider => Self::Aider {
                history: aider_history(&agent.directory),
            },
            KnownAgent::Copilot => Self::Copilot {
                sessions: config("COPILOT_HOME", ".copilot").join("session-state"),
            },
            // opencode keeps a database.
            KnownAgent::Opencode => return None,
        })
    }

    pub fn format(&self) -> StreamFormat {
        match self {
            Self::Claude { .. } => StreamFormat::ClaudeTranscript,
            Self::Codex { .. } => StreamFormat::CodexRollout,
            Self::Gemini { .. } => StreamFormat::GeminiSession,
            Self::Qwen { .. } => StreamFormat::QwenSession,
            Self::Aider { .. } => StreamFormat::AiderHistory,
            Self::Copilot { .. } => StreamFormat::CopilotSession,
        }
    }

    /// Returns true if sub-agents have files of their own beside the conversation.
    pub fn has_sub_agents(&self) -> bool {
        matches!(self, Self::Claude { .. })
    }

    /// Returns the path of the agent's status file; `None` for an agent without one.
    pub fn status_file(&self, agent: &RunningAgent) -> Option<PathBuf> {
        let Self::Claude { config } = self else {
            return None;
        };
        Some(config.join("sessions").join(format!("{}.json", agent.pid)))
    }

    /// Returns where the agent writes its conversation now. `status` is the content of its status
    /// file; `since` is the start of the agent.
    pub fn locate(
        &self,
        agent: &RunningAgent,
        status: Option<&StatusFile>,
        since: Timestamp,
    ) -> Located {
        match self {
            Self::Claude { config } => {
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
            Self::Codex { sessions } => {
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
            Self::Gemini { home } => {
                let Some(project) = gemini_project(home, &agent.directory) else {
                    return Located::Nowhere;
                };
                let chats = home.join("tmp").join(project).join("chats");
                one_of(newer_than(&chats, "jsonl", since))
            }
            Self::Qwen { chats } => {
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
            Self::Aider { history } => match modified(history) {
                Some(at) if at >= since => Located::File(history.clone()),
                _ => Located::Nowhere,
            },
            Self::Copilot { sessions } => match copilot_session(sessions, &agent.processes()) {
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
    /// Returns true if the session is a sub-agent's, whose source is an object that names its parent.
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

/// Returns the time of the last write to a file.
pub(super) fn modified(file: &Path) -> Option<Timestamp> {
    FileVersion::of(&fs::metadata(file).ok()?).modified()
}

/// Returns the files of a directory with this extension that were written since `since`.
fn newer_than(directory: &Path, extension: &str, since: Timestamp) -> Vec<PathBuf> {
    let since = Timestamp::from_micros(since.micros().saturating_sub(BEFORE_START_MICROS));
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let files = entries.take(FILES_MAX).flatten().map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|own| own == extension))
        .filter(|file| modified(file).is_some_and(|at| at >= since))
        .collect()
}

/// Returns the two latest days with sessions, because a session may have begun before midnight. The
/// names `YYYY/MM/DD` sort chronologically.
fn latest_days(sessions: &Path) -> Vec<PathBuf> {
    let latest = |mut paths: Vec<PathBuf>| {
        paths.sort();
        paths.into_iter().rev().take(2)
    };
    let below = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        latest(paths.filter(|path| path.is_dir()).collect())
    };
    let months = below(sessions).flat_map(|year| below(&year));
    latest(months.flat_map(|month| below(&month)).collect()).collect()
}

/// Parses the first line of a file.
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
