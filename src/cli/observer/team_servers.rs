//! The tmux servers that agents start for the members of their teams, each with a socket of its own.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cli::options::WhichServer;
use crate::feed::real;

/// How the names of their sockets begin.
const TEAM: &str = "claude-swarm-";

/// The most names in the sentence.
const NAMES_MAX: usize = 3;

/// Returns a sentence that names the running servers of agents' teams besides these; `None` without any. They are
/// searched in the directories of these sockets, and in the one that tmux chooses.
pub(in crate::cli) fn unobserved(servers: &[PathBuf]) -> Option<String> {
    let chosen = WhichServer::Default.socket_path();
    let sockets = servers.iter().chain(&chosen);
    let directories = sockets.filter_map(|socket| socket.parent());
    let directories: HashSet<PathBuf> = directories.map(real).collect();
    let servers: Vec<PathBuf> = servers.iter().map(|socket| real(socket)).collect();
    let files = directories.iter().flat_map(std::fs::read_dir).flatten();
    let files = files.flatten().map(|file| file.path());
    let is_team = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(TEAM)) && !servers.contains(path)
    };
    let teams: Vec<PathBuf> = files.filter(is_team).collect();
    if teams.is_empty() {
        return None;
    }
    // The kernel lists the sockets that processes have bound; the file of a server that was killed remains.
    let bound = std::fs::read("/proc/net/unix").ok()?;
    let bound = String::from_utf8_lossy(&bound);
    let bound: HashSet<&Path> = (bound.lines())
        .filter_map(|line| Some(Path::new(&line[line.find('/')?..])))
        .collect();
    let running = teams.iter().filter(|path| bound.contains(path.as_path()));
    let names = running.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    let (count, first) = (names.len(), names.first()?);
    let shown = names[..count.min(NAMES_MAX)].join(", ");
    let more = match count.saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (noun, verb) = if count == 1 {
        ("a tmux server of an agent's team", "is")
    } else {
        ("tmux servers of agents' teams", "are")
    };
    Some(format!(
        "{noun} {verb} not observed: {shown}{more}; name it at td-observe start (-L {first}), beside your own"
    ))
}
