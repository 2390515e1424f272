//! Processes in `/proc`: status, command line, directory and children.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::track::Death;

/// The clock ticks per second in `/proc`: `USER_HZ`, which is 100 on every Linux machine.
const TICKS_A_SECOND: u64 = 100;

/// The most bytes of a command line that are read: it may have megabytes.
const COMMAND_BYTES_MAX: usize = 4096;

/// The status of a process, see proc_pid_stat(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: u32,
    pub is_zombie: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The foreground group of its terminal. `None` without a terminal.
    pub foreground: Option<u32>,
    /// The start time in clock ticks since boot. Together with the pid it identifies the process.
    pub started: u64,
    /// The address of its arguments, which a fork shares and another program does not. 0 for a process of
    /// another user.
    pub arguments: u64,
    /// The status that wait(2) returns for a zombie; 0 for a process of another user.
    exit_code: i32,
}

/// Reads the status of a process; `None` when it is gone, or outside of Linux.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a line of `stat`. Its second field is a name in parentheses, which may contain any character.
fn parse_stat(pid: u32, text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // The manual counts from 1, and the third field is the first one here.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        pid,
        is_zombie: matches!(field(3)?, "Z" | "X"),
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        foreground: field(8)?.parse().ok(),
        started: field(22)?.parse().ok()?,
        arguments: field(48)?.parse().ok()?,
        exit_code: field(52)?.parse().ok()?,
    })
}

/// Returns how a process ended that has not been reaped; `None` where that is not visible.
pub(super) fn zombie_exit(pid: u32, started: u64) -> Option<Death> {
    let stat = stat(pid).filter(|stat| stat.is_zombie && stat.started == started)?;
    // Other users than its owner see the status 0, which would be success.
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let own = rustix::process::geteuid();
    (own.is_root() || own.as_raw() == owner).then(|| death(stat.exit_code))
}

/// Converts a status of wait(2).
pub(super) fn death(exit_code: i32) -> Death {
    match exit_code & 0x7f {
        0 => Death {
            status: Some(exit_code >> 8 & 0xff),
            signal: None,
        },
        signal => Death {
            status: None,
            signal: Some(signal),
        },
    }
}

/// Returns true while a process lives or is a zombie.
pub(super) fn exists(pid: u32, started: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.started == started)
}

/// Returns the arguments of a process; none after its end.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(COMMAND_BYTES_MAX)];
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let arguments = bytes.split(|byte| *byte == 0);
    arguments
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect()
}

/// Returns the working directory of a process.
pub(crate) fn directory(pid: u32) -> Option<String> {
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(directory.to_string_lossy().into_owned())
}

/// Returns the file behind the standard output of a process, as the kernel names it: `/dev/pts/3`,
/// `pipe:[42]`.
pub(crate) fn standard_output(pid: u32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    Some(file.to_string_lossy().into_owned())
}

/// Returns the children that a process's main thread has started, in the order of their start. Without
/// the kernel's lists (`CONFIG_PROC_CHILDREN`) all processes are searched.
pub(crate) fn children(pid: u32) -> Vec<Stat> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(pids) => {
            let pids = pids.split_ascii_whitespace();
            pids.filter_map(|pid| stat(pid.parse().ok()?)).collect()
        }
        Err(_) => search_children(pid),
    }
}

fn search_children(parent: u32) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let stats = names.filter_map(|name| stat(name.to_str()?.parse().ok()?));
    let mut children: Vec<Stat> = stats.filter(|stat| stat.parent == parent).collect();
    // Within a tick the pids give the order, except when they wrap around.
    children.sort_by_key(|stat| (stat.started, stat.pid));
    children
}

/// Returns the time since a process started; zero where it is unknown.
pub(crate) fn age(stat: &Stat) -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text
        .split(' ')
        .next()
        .and_then(|seconds| seconds.parse().ok());
    let uptime = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let started = Duration::from_millis(stat.started.saturating_mul(1000 / TICKS_A_SECOND));
    uptime.unwrap_or_default().saturating_sub(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_look_like_other_fields() {
        let rest = "0 ".repeat(13);
        let stat = format!(
            "7 (a) S 1) Z 5 6 7 34816 4242 {rest} 99 {} 4096 0 0 0 512",
            "0 ".repeat(25)
        );
        let stat = parse_stat(7, &stat).unwrap();
        assert_eq!((stat.parent, stat.group, stat.session), (5, 6, 7));
        assert_eq!((stat.foreground, stat.started), (Some(4242), 99));
        assert_eq!((stat.arguments, stat.exit_code), (4096, 512));
        assert!(stat.is_zombie);
        assert_eq!(parse_stat(7, "7 (a) S 1 2"), None);
        assert_eq!(parse_stat(7, ""), None);
    }

    #[test]
    fn an_exit_is_a_status_or_a_signal() {
        assert_eq!(death(101 << 8).exit_status(), Some(101));
        assert_eq!(death(0).exit_status(), Some(0));
        assert_eq!(death(9).exit_status(), Some(137));
        assert_eq!(death(0x80 | 11).signal, Some(11), "with a core");
    }

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
