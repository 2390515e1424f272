//! The program in the foreground of a pane, asked of the kernel: tmux would read the same files, and
//! the bytes that its server reads are a measure of what panes print.

use std::fs;

/// What runs in the foreground of the terminal that this process has, the first one of a pane:
/// the name that the kernel has for it, at most 15 bytes. `None` where that is not to be known: the
/// process is gone, is somebody else's, or this is no Linux.
pub(crate) fn foreground_program(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let name = fs::read(format!("/proc/{}/comm", foreground_group(&stat)?)).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// The foreground process group of the process's terminal: the eighth field of proc_pid_stat(5).
/// The second one is a name in parentheses, which may have any character in it.
fn foreground_group(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_look_like_the_rest() {
        let stat = "7 (a) S 1 2 3) S 1 7 7 34816 4242 4194304 0";
        assert_eq!(foreground_group(stat), Some(4242));
        let without_terminal = "7 (a) S 1 7 7 0 -1 4194304 0";
        assert_eq!(foreground_group(without_terminal), None);
        assert_eq!(foreground_group("7 (a"), None);
        assert_eq!(foreground_group(""), None);
    }
}
