//! Small limits of descriptors, address space and processes: the program works or reports the reason, and
//! never aborts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{PROGRAM, Place};
use crate::{Leftovers, Tally};

/// A user without other processes, for the limit of processes.
const OTHER_USER: u32 = 54_322;

const LIMITS: &[(&str, &[u32])] = &[
    ("-n", &[8, 12, 16, 20, 24, 32, 48, 64, 128]),
    ("-v", &[60_000, 100_000, 150_000, 200_000, 300_000, 500_000]),
    ("-u", &[2, 4, 6, 8, 10, 12, 16]),
];

/// Runs a command under each limit.
pub fn small(rounds: usize) -> Tally {
    let mut total = Tally::default();
    for _ in 0..rounds {
        for (option, values) in LIMITS {
            for value in *values {
                total.rounds += 1;
                one(option, *value, &mut total);
            }
        }
    }
    total
}

fn one(option: &str, value: u32, total: &mut Tally) {
    let place = Place::new();
    let is_for_processes = option == "-u";
    if is_for_processes && !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can limit the processes of another user");
        return;
    }
    let program = place.command(&["run", "--", "seq", "-f", "line %.0f", "1", "20000"]);
    let script = format!("ulimit -c 0; ulimit {option} {value}; exec \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash"]);
    if is_for_processes {
        // The other user cannot reach this program or its directories.
        let copy = place.data().with_file_name("td-observe");
        fs::copy(PROGRAM, &copy).unwrap();
        let root = copy.parent().unwrap();
        fs::set_permissions(root, Permissions::from_mode(0o711)).unwrap();
        fs::create_dir(place.data()).unwrap();
        for path in [place.data(), place.sockets()] {
            chown(path, Some(OTHER_USER + value), None).unwrap();
        }
        command
            .arg(copy)
            .current_dir("/")
            .uid(OTHER_USER + value)
            .gid(OTHER_USER);
    } else {
        command.arg(program.get_program());
    }
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command
        .args(program.get_args())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let has_reported = output.status.success() || !stderr.trim().is_empty();
    if output.status.signal().is_some() || !has_reported || stderr.contains("panicked") {
        eprintln!("ulimit {option} {value}: {:?}: {stderr}", output.status);
        total.wrong_ends += 1;
    }
    // All written lines are whole.
    for run in runs(&place.data()) {
        let findings = crate::log_check::check(&run, crate::log_check::Witnesses::default());
        total.lost_lines += findings.lost_lines;
        total.missing_numbers += findings.missing_numbers;
    }
    let left = Leftovers::at(&place);
    total.left.processes += left.processes;
    total.left.sockets += left.sockets;
}

fn runs(data: &Path) -> Vec<td_observe::history::RunDirectory> {
    let Ok(entries) = fs::read_dir(data.join("runs")) else {
        return Vec::new();
    };
    // Only a user's own runs are read.
    let own = entries.flatten().map(|entry| entry.path());
    own.filter_map(|path| td_observe::history::RunDirectory::at(&path).ok())
        .collect()
}
