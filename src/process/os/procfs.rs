//! Processes in `/proc`: exit status, command line, directory and children.

use std::fs;
use std::time::Duration;

use crate::child::{Stat, processes, stat};
use crate::track::ProcessExit;

/// Returns the exit of a process that was not reaped; `None` if it is not visible.
pub(super) fn zombie_exit(pid: u32, started: u64) -> Option<ProcessExit> {
    let stat = stat(pid).filter(|stat| stat.started == started)?;
    stat.zombie_status().map(ProcessExit::from_wait_status)
}

/// Returns true while a process is alive or a zombie.
pub(super) fn exists(pid: u32, started: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.started == started)
}

/// Returns the arguments of a process; none after its end.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // Command lines may have megabytes.
    let bytes = &bytes[..bytes.len().min(4096)];
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let arguments = bytes.split(|byte| *byte == 0);
    arguments
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// Returns the kernel's name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// Returns the working directory of a process.
pub(crate) fn directory(pid: u32) -> Option<String> {
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(directory.to_string_lossy().into_owned())
}

/// Returns the kernel's name of the file at the standard output of a process, such as `/dev/pts/3` or
/// Returns the parent of this process, the parent of that, and so on, at most 16 of them.
#[cfg(feature = "cli")]
pub(crate) fn ancestors() -> Vec<u32> {
    let parent = |pid: &u32| {
        let parent = stat(*pid)?.parent;
        (parent > 1).then_some(parent)
    };
    let own = std::process::id();
    std::iter::successors(parent(&own), parent)
        .take(16)
        .collect()
}

/// Returns the value of a variable in the environment with which a process began.
#[cfg(feature = "mcp")]
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    let value = std::str::from_utf8(value).ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// `pipe:[42]`.
pub(crate) fn standard_output(pid: u32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    Some(file.to_string_lossy().into_owned())
}

/// Returns the children of a process in the order of their start. Searches all processes if the kernel has no lists of
/// children (`CONFIG_PROC_CHILDREN`).
pub(crate) fn children(pid: u32) -> Vec<Stat> {
    let list = |thread: &str| fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
    let Ok(of_main) = list(&pid.to_string()) else {
        return search_children(pid);
    };
    // A thread may have started them: `td-observe run` has one for its command. One that has ended has none.
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let threads = threads.flatten().map(|thread| thread.file_name());
    let others = threads.filter(|thread| *thread != *pid.to_string());
    let others = others.filter_map(|thread| list(&thread.to_string_lossy()).ok());
    let lists: Vec<String> = std::iter::once(of_main).chain(others).collect();
    let pids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    let mut children: Vec<Stat> = pids.filter_map(|pid| stat(pid.parse().ok()?)).collect();
    if lists.len() > 1 {
        sort_by_start(&mut children);
    }
    children
}

fn search_children(parent: u32) -> Vec<Stat> {
    let children = processes().into_iter().flatten();
    let mut children: Vec<Stat> = children.filter(|stat| stat.parent == parent).collect();
    sort_by_start(&mut children);
    children
}

fn sort_by_start(processes: &mut [Stat]) {
    // Within a clock tick, pids give the order, except when they wrap around.
    processes.sort_by_key(|stat| (stat.started, stat.pid));
}

/// Returns the time since a process started; zero if it is unknown.
pub(crate) fn age(stat: &Stat) -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text
        .split(' ')
        .next()
        .and_then(|seconds| seconds.parse().ok());
    let uptime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // The clock has 100 ticks per second (`USER_HZ`) on every Linux machine.
    let started = Duration::from_millis(stat.started.saturating_mul(10));
    uptime.unwrap_or_default().saturating_sub(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_own_arguments_and_directory() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = stat(std::process::id()).unwrap();
        assert!(!own.is_zombie && exists(own.pid, own.started));
        assert!(!exists(own.pid, own.started + 1), "another process");
        assert_eq!(arguments(own.pid), std::env::args().collect::<Vec<_>>());
        let here = std::env::current_dir().unwrap();
        assert_eq!(directory(own.pid).unwrap(), here.to_string_lossy());
        assert!(
            age(&own) < Duration::from_secs(24 * 3600),
            "{:?}",
            age(&own)
        );
        assert_eq!(zombie_exit(own.pid, own.started), None);
    }

    #[test]
    fn the_children_of_other_threads_are_children() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let start = || {
            let mut cat = std::process::Command::new("cat");
            cat.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let is_child = |pid: u32| {
            let mut all = children(std::process::id()).into_iter();
            all.any(|child| child.pid == pid)
        };
        // Its children are its process's when the thread ends, so it must go on.
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let (end, ended) = crossbeam_channel::bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            sender.send(start()).unwrap();
            let _ = ended.recv();
        });
        let mut cat = receiver.recv().unwrap();
        assert!(is_child(cat.id()));
        drop(end);
        thread.join().unwrap();
        drop(cat.stdin.take());
        cat.wait().unwrap();
    }

    #[test]
    fn children_are_listed_in_the_order_of_their_start() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & sleep 1000 & echo ready; read x"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pids =
            |children: Vec<Stat>| -> Vec<u32> { children.iter().map(|child| child.pid).collect() };
        let listed = pids(children(shell.id()));
        assert_eq!(listed.len(), 2);
        assert_eq!(listed, pids(search_children(shell.id())));
        for pid in listed {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
