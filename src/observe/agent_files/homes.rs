//! Finds the files that an agent in a pane writes: its status file and its transcript.
//!
//! The places were determined with the agents themselves (Claude Code 2.1.330, Codex 0.169, Gemini CLI
//! 0.61, Qwen Code 0.24, aider 0.86, Copilot CLI 1.0).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::file::{FileVersion, read_small};
use crate::agent::{KnownAgent, StatusFile, StreamFormat};
use crate::process::RunningAgent;
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
const HOMES: [Home; 5] = [
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
];

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
    /// Returns the places of an agent; `None` if it keeps no conversation in a readable file.
    pub fn of(agent: &RunningAgent) -> Option<Self> {
        let user = agent.home()?;
        let known = agent.program.known()?;
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
            (KnownAgent::Claude, Some(status)) => {
                let directory = self.sessions.join(dashed(Path::new(&status.cwd)));
                session_file(&status.session_id).map(|name| directory.join(name))
            }
            // Versions before 2.1.2xx have no status file.
            (KnownAgent::Claude, None) => {
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
            _ => None,
        };
        match found.filter(|file| file.is_file()) {
            Some(file) => Located::File(file),
            None => Located::Nowhere,
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
    // A session file may be dated this much before its process, because clocks of files are coarse.
    let since = Timestamp::from_micros(since.micros().saturating_sub(2_000_000));
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

/// Parses a file, or only its first line.
fn read_json<T: serde::de::DeserializeOwned>(file: &Path, is_first_line: bool) -> Option<T> {
    // The bytes of a file's first line that are read to identify the session. Codex writes up to 46 KB.
    let bytes = read_small(file, OFlags::empty(), 256 * 1024)?;
    let end = memchr::memchr(b'\n', &bytes).filter(|_| is_first_line);
    serde_json::from_slice(&bytes[..end.unwrap_or(bytes.len())]).ok()
}
