//! The exit of a program that tmux has not reaped, which the kernel keeps until tmux does.
//!
//! tmux notices that a program's terminal is closed before it notices the program's exit, and on a busy
//! machine it may miss the exit altogether (tmux 3.3a: one in ten exits of programs that print until they
//! end, on an otherwise idle server). Such a process remains a zombie until another child of tmux ends.

use std::fs;

use crate::track::ProcessExit;

/// Returns how the process that tmux started ended, if it is a zombie. Empty if that is unknown: the process
/// runs, has been reaped or belongs to another user, or the system is not Linux.
pub(super) fn unreaped_exit(pid: u32) -> ProcessExit {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    stat.and_then(|stat| zombie_exit(&stat)).unwrap_or_default()
}

/// Parses proc_pid_stat(5): the third field is the state, the 52nd the status that waitpid(2) returns. The
/// second is a name in parentheses, which may contain any character.
fn zombie_exit(stat: &str) -> Option<ProcessExit> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if fields.next()? != "Z" {
        return None;
    }
    let code: i32 = fields.nth(48)?.parse().ok()?;
    let signal = Some(code & 0x7f).filter(|&signal| signal != 0);
    Some(ProcessExit {
        status: signal.is_none().then_some(code >> 8 & 0xff),
        signal,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs a script and returns how it ended, before it is reaped.
    fn run_to_end(script: &str) -> ProcessExit {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eq!(
            unreaped_exit(std::process::id()),
            ProcessExit::default(),
            "it runs"
        );
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let death = loop {
            match unreaped_exit(pid) {
                ProcessExit {
                    status: None,
                    signal: None,
                } if std::time::Instant::now() < deadline => std::thread::yield_now(),
                death => break death,
            }
        };
        child.wait().unwrap();
        assert_eq!(unreaped_exit(pid), ProcessExit::default(), "it is gone");
        death
    }

    #[test]
    fn a_zombie_has_an_exit_status() {
        if !cfg!(target_os = "linux") {
            return;
        }
        assert_eq!(run_to_end("exit 3").exit_status(), Some(3));
        assert_eq!(run_to_end("exit 255").exit_status(), Some(255));
        assert_eq!(run_to_end("exit 0").exit_status(), Some(0));
        assert_eq!(run_to_end("kill -9 $$").signal, Some(9));
    }

    #[test]
    fn other_states_have_none() {
        let rest = "0 ".repeat(48);
        assert_eq!(
            zombie_exit(&format!("7 (a) Z) Z {rest}768"))
                .unwrap()
                .status,
            Some(3)
        );
        assert_eq!(zombie_exit(&format!("7 (a) Z) S {rest}768")), None);
        assert_eq!(zombie_exit("7 (a) Z 0 0"), None);
        assert_eq!(zombie_exit(""), None);
    }
}
