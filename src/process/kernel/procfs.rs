//! What the kernel tells of processes as text: `/proc/PID/stat`, the command line, the children.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::track::Death;

/// Ticks a second in which the kernel dates processes: `USER_HZ`, 100 on every machine that Linux has.
const TICKS_A_SECOND: u64 = 100;

/// More of a command line is no name for a job: it may have megabytes.
const COMMAND_BYTES_MAX: usize = 4096;

/// A process, as proc_pid_stat(5) has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: u32,
    pub is_zombie: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The foreground group of its terminal, if it has one.
    pub foreground: Option<u32>,
    /// When it started, in ticks since the machine did: with the pid, the process's identity.
    pub started: u64,
    /// Where its arguments are in its memory: a fork has the same place, another program another one.
    /// 0 for a process of another user.
    pub arguments: u64,
    /// What wait(2) gives for a zombie; 0 for a process of another user.
    exit_code: i32,
}

/// A process now; `None` where it is gone, or this is no Linux.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    read_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is a name in parentheses, which may have any character in it.
fn read_stat(pid: u32, text: &str) -> Option<Stat> {
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

/// How a process ended that has not been waited for; `None` where that is not to be known.
pub(super) fn zombie(pid: u32, started: u64) -> Option<Death> {
    let stat = stat(pid).filter(|stat| stat.is_zombie && stat.started == started)?;
    // To others than its owner the kernel shows 0, which would be success.
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let own = rustix::process::geteuid();
    (own.is_root() || own.as_raw() == owner).then(|| death(stat.exit_code))
}

/// What wait(2) gives, taken apart.
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

/// Whether a process is there, or its end has not been asked for.
pub(super) fn is_there(pid: u32, started: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.started == started)
}

/// The arguments of a process; none of one that has ended.
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

/// The directory in which a process is.
pub(crate) fn directory(pid: u32) -> Option<String> {
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(directory.to_string_lossy().into_owned())
}

/// What a process has for its standard output, as the kernel names it: `/dev/pts/3`, `pipe:[42]`.
pub(crate) fn standard_output(pid: u32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    Some(file.to_string_lossy().into_owned())
}

/// The children of a process that its main thread has started, in the order in which it has. A kernel
/// without such lists (`CONFIG_PROC_CHILDREN`) is searched.
pub(crate) fn children(pid: u32) -> Vec<Stat> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(pids) => {
            let pids = pids.split_ascii_whitespace();
            pids.filter_map(|pid| stat(pid.parse().ok()?)).collect()
        }
        Err(_) => searched_children(pid),
    }
}

fn searched_children(parent: u32) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let stats = names.filter_map(|name| stat(name.to_str()?.parse().ok()?));
    let mut children: Vec<Stat> = stats.filter(|stat| stat.parent == parent).collect();
    // Within a tick, pids tell, but for the moment at which they begin anew.
    children.sort_by_key(|stat| (stat.started, stat.pid));
    children
}

/// How long ago a process started; zero where nobody tells.
pub(crate) fn age(stat: &Stat) -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime.split('.').next().and_then(|text| text.parse().ok());
    let hundredths = uptime.get(uptime.find('.').map_or(0, |dot| dot + 1)..);
    let hundredths = hundredths.and_then(|text| text.get(..2)?.parse().ok());
    let (Some(seconds), Some(hundredths)): (Option<u64>, Option<u64>) = (seconds, hundredths)
    else {
        return Duration::ZERO;
    };
    let started = stat.started.saturating_mul(1000 / TICKS_A_SECOND);
    let now = seconds.saturating_mul(1000) + hundredths * 10;
    Duration::from_millis(now.saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_look_like_the_rest() {
        let rest = "0 ".repeat(13);
        let stat = format!(
            "7 (a) S 1) Z 5 6 7 34816 4242 {rest} 99 {} 4096 0 0 0 512",
            "0 ".repeat(25)
        );
        let stat = read_stat(7, &stat).unwrap();
        assert_eq!((stat.parent, stat.group, stat.session), (5, 6, 7));
        assert_eq!((stat.foreground, stat.started), (Some(4242), 99));
        assert_eq!((stat.arguments, stat.exit_code), (4096, 512));
        assert!(stat.is_zombie);
        assert_eq!(read_stat(7, "7 (a) S 1 2"), None);
        assert_eq!(read_stat(7, ""), None);
    }

    #[test]
    fn an_end_is_a_status_or_a_signal() {
        assert_eq!(death(101 << 8).exit_status(), Some(101));
        assert_eq!(death(0).exit_status(), Some(0));
        assert_eq!(death(9).exit_status(), Some(137));
        assert_eq!(death(0x80 | 11).signal, Some(11), "with a core");
    }

    #[test]
    fn this_process_is_known_by_what_it_was_started_with() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = stat(std::process::id()).unwrap();
        assert!(!own.is_zombie && is_there(own.pid, own.started));
        assert!(!is_there(own.pid, own.started + 1), "another one");
        assert_eq!(arguments(own.pid), std::env::args().collect::<Vec<_>>());
        let here = std::env::current_dir().unwrap();
        assert_eq!(directory(own.pid).unwrap(), here.to_string_lossy());
        assert!(
            age(&own) < Duration::from_secs(24 * 3600),
            "{:?}",
            age(&own)
        );
        assert_eq!(zombie(own.pid, own.started), None);
    }

    #[test]
    fn children_stand_in_the_order_in_which_they_were_started() {
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
        assert_eq!(listed, pids(searched_children(shell.id())));
        for pid in listed {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
