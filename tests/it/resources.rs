//! The resources of a process, as the kernel reports them: memory, threads, descriptors, and remaining children.

#![allow(dead_code)]

use std::fs;
use std::path::Path;

/// The resources of a process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub rss_kb: u64,
    pub threads: usize,
    pub descriptors: usize,
}

impl Held {
    /// Returns the current resources of a process, or `None` if it is gone.
    pub fn by(pid: u32) -> Option<Self> {
        let process = Path::new("/proc").join(pid.to_string());
        let status = fs::read_to_string(process.join("status")).ok()?;
        Some(Self {
            rss_kb: number_after(&status, "VmRSS:")?,
            threads: fs::read_dir(process.join("task")).ok()?.count(),
            descriptors: fs::read_dir(process.join("fd")).ok()?.count(),
        })
    }

    /// Returns the resources of this process. The descriptor that reads the directory is one of them.
    pub fn here() -> Self {
        Self::by(std::process::id()).unwrap()
    }
}

/// Returns the peak memory of a process.
pub fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    number_after(&status, "VmHWM:")
}

/// Returns the memory of a process with its share of shared pages, so that several can be summed.
pub fn share_kb(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    number_after(&rollup, "Pss:")
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the children of a process, including zombies.
pub fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for task in tasks.flatten() {
        // A thread may have ended meanwhile.
        let of_task = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(
            of_task
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    children
}

/// Returns true if a process has ended and nobody has reaped it.
pub fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// Returns the processes whose command lines contain this text, by id. A path that belongs to one test
/// finds all processes that were started for it, whatever their parents are now.
pub fn processes_with(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // The process may have ended meanwhile.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push((pid, line));
        }
    }
    found
}
