//! The time and the memory of a command that is run to its end.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::resources::peak_kb;

/// Returns the seconds that a command takes, which must succeed.
pub fn seconds(mut command: Command) -> f64 {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    began.elapsed().as_secs_f64()
}

/// Returns the peak memory of a command in kB, polled repeatedly, because an ended process does not report it.
pub fn peak(mut command: Command) -> u64 {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_kb(child.id()).unwrap_or(0));
        thread::sleep(Duration::from_millis(1));
    }
    assert!(peak > 0);
    peak
}
