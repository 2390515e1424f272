//! The status of processes in `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;

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

impl Stat {
    /// Returns the status that wait(2) returns for a process that has ended and is not reaped; `None` if the
    /// process runs or belongs to another user.
    pub(crate) fn zombie_status(&self) -> Option<i32> {
        let owner = fs::metadata(format!("/proc/{}", self.pid)).ok()?.uid();
        let own = rustix::process::geteuid();
        // Users other than the owner read the status 0, which would mean success.
        let is_readable = own.is_root() || own.as_raw() == owner;
        (self.is_zombie && is_readable).then_some(self.exit_code)
    }
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

/// Reads the status of all processes; `None` without `/proc`.
pub(crate) fn processes() -> Option<impl Iterator<Item = Stat>> {
    let entries = fs::read_dir("/proc").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Some(names.filter_map(|name| stat(name.to_str()?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_name_of_a_process_may_resemble_other_fields() {
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

    /// Runs a script and returns the status of its zombie, before it is reaped.
    fn zombie_status_of(script: &str) -> i32 {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let status = || stat(child.id()).and_then(|stat| stat.zombie_status());
        let deadline = Instant::now() + Duration::from_secs(20);
        let code = loop {
            match status() {
                None if Instant::now() < deadline => thread::yield_now(),
                code => break code,
            }
        };
        child.wait().unwrap();
        assert_eq!(stat(child.id()), None, "it is reaped");
        code.unwrap()
    }

    #[test]
    fn a_zombie_has_a_status() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = stat(std::process::id()).unwrap();
        assert_eq!(own.zombie_status(), None, "it runs");
        assert_eq!(zombie_status_of("exit 3"), 3 << 8);
        assert_eq!(zombie_status_of("exit 0"), 0);
        assert_eq!(zombie_status_of("kill -9 $$"), 9);
    }
}
