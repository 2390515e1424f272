//! An export that is interrupted half-way leaves nothing, and what was there stays.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli::{Running, assert_code, program, text};
use crate::support::{CEILING, wait_for};

/// The size of the unfinished database at which the export is interrupted. Half of its pages are in memory then.
const HALF_WAY_BYTES: u64 = 4 * 1024 * 1024;

/// Writes a run whose database is several times as large.
fn write_large_run(data: &Path) {
    let directory = data.join("runs/a@1");
    fs::create_dir_all(&directory).unwrap();
    let mut lines = String::new();
    for seq in 1..=6_000_u64 {
        let row = |n: u64| {
            format!(
                "line {} of the build says {:x}\n",
                seq * 200 + n,
                seq.wrapping_mul(n + 7919)
            )
        };
        let chunk: String = (0..200).map(row).collect();
        let event = json!({"type": "OutputUpdate", "execution_id": "a@1", "pane": "%1", "first_line": seq * 200,
            "chunk": chunk, "is_complete": false});
        let line = json!({"seq": seq, "ts": "2026-01-21T10:00:00.000000Z", "event": event});
        lines += &(line.to_string() + "\n");
    }
    fs::write(directory.join("events.jsonl"), lines).unwrap();
}

fn unfinished(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).unwrap();
    let found = entries.find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with(".td-observe-").then_some(name)
    });
    found.map(|name| directory.join(name))
}

#[test]
fn an_interrupted_export_leaves_no_database() {
    let data = tempfile::tempdir().unwrap();
    write_large_run(data.path());
    for (signal, before) in [
        (Signal::INT, None),
        (Signal::TERM, Some("kept")),
        (Signal::KILL, None),
        (Signal::KILL, Some("kept")),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("history.db");
        if let Some(content) = before {
            fs::write(&file, content).unwrap();
        }
        let args = ["export", "--format", "sqlite", "-o", file.to_str().unwrap()];
        let running = Running::start(program(&args, data.path()));
        wait_for("half of the database", CEILING, || {
            let bytes = unfinished(temp.path()).and_then(|path| path.metadata().ok());
            let bytes = bytes.map_or(0, |about| about.len());
            if bytes >= HALF_WAY_BYTES {
                Ok(())
            } else {
                Err(bytes)
            }
        });
        // What is interrupted is not over.
        let pid = Pid::from_child(&running.child);
        kill_process(pid, Signal::STOP).unwrap();
        assert!(unfinished(temp.path()).is_some(), "it was over too soon");
        running.signal(signal);
        kill_process(pid, Signal::CONT).unwrap();
        let ended = running.end();
        assert_eq!(
            fs::read_to_string(&file).ok().as_deref(),
            before,
            "{signal:?}"
        );
        if signal != Signal::KILL {
            assert_code(&ended, 130);
            assert!(text(&ended.stderr).contains("interrupted"), "{ended:?}");
            assert_eq!(unfinished(temp.path()), None);
        }
    }
}
