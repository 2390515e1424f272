//! How a program ended that tmux has not heard of: the kernel keeps that until tmux asks for it.
//!
//! tmux learns that a program's terminal is closed before it hears of the program's end, and on a busy
//! machine it may not hear of it at all (tmux 3.3a: one end in ten of programs that print until they
//! end, with nobody else around): such a process stays a zombie until another one of tmux's ends.

use std::fs;

use crate::track::Death;

/// How the program ended that tmux started as this process, if it has ended and tmux has not taken note.
/// Nothing where that is not to be known: the process is there, is gone, is somebody else's, or this
/// is no Linux.
pub(super) fn unreaped(pid: u32) -> Death {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    stat.and_then(|stat| zombie(&stat)).unwrap_or_default()
}

/// The third field of proc_pid_stat(5) is the state and the 52nd what waitpid(2) gives. The second one
/// is a name in parentheses, which may have any character in it.
fn zombie(stat: &str) -> Option<Death> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if fields.next()? != "Z" {
        return None;
    }
    let code: i32 = fields.nth(48)?.parse().ok()?;
    let (status, signal) = (code >> 8 & 0xff, code & 0x7f);
    Some(match signal {
        0 => Death {
            status: Some(status),
            signal: None,
        },
        _ => Death {
            status: None,
            signal: Some(signal),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that has ended in this way and that nobody has asked for yet.
    fn ended(script: &str) -> Death {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eq!(
            unreaped(std::process::id()),
            Death::default(),
            "it is there"
        );
        let over = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let death = loop {
            match unreaped(pid) {
                Death {
                    status: None,
                    signal: None,
                } if std::time::Instant::now() < over => std::thread::yield_now(),
                death => break death,
            }
        };
        child.wait().unwrap();
        assert_eq!(unreaped(pid), Death::default(), "it is gone");
        death
    }

    #[test]
    fn a_zombie_tells_how_it_ended() {
        if !cfg!(target_os = "linux") {
            return;
        }
        assert_eq!(ended("exit 3").exit_status(), Some(3));
        assert_eq!(ended("exit 255").exit_status(), Some(255));
        assert_eq!(ended("exit 0").exit_status(), Some(0));
        assert_eq!(ended("kill -9 $$").signal, Some(9));
    }

    #[test]
    fn other_states_tell_nothing() {
        let rest = "0 ".repeat(48);
        assert_eq!(
            zombie(&format!("7 (a) Z) Z {rest}768")).unwrap().status,
            Some(3)
        );
        assert_eq!(zombie(&format!("7 (a) Z) S {rest}768")), None);
        assert_eq!(zombie("7 (a) Z 0 0"), None);
        assert_eq!(zombie(""), None);
    }
}
