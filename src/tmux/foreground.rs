//! The program in the foreground of a pane, read from the kernel. tmux would read the same files, but the
//! number of bytes that its server reads must measure the panes' output only.

use std::fs;

/// Returns the kernel's name (at most 15 bytes) of the program in the foreground of the terminal of a pane's
/// first process. `None` if it is unknown: the process has ended or belongs to another user, or the system is
/// not Linux.
pub(crate) fn foreground_program(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let name = fs::read(format!("/proc/{}/comm", foreground_group(&stat)?)).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// Parses the foreground process group of the process's terminal, the eighth field of proc_pid_stat(5). The
/// second field is a name in parentheses, which may contain any character.
fn foreground_group(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_resemble_fields() {
        let stat = "7 (a) S 1 2 3) S 1 7 7 34816 4242 4194304 0";
        assert_eq!(foreground_group(stat), Some(4242));
        let without_terminal = "7 (a) S 1 7 7 0 -1 4194304 0";
        assert_eq!(foreground_group(without_terminal), None);
        assert_eq!(foreground_group("7 (a"), None);
        assert_eq!(foreground_group(""), None);
    }
}
