//! The program with an output that nobody reads, while a pane floods.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use td_observe::{Envelope, TdEvent};

use crate::cli::{on, program};
use crate::observed::{Replay, logs};
use crate::resources::peak_kb;
use crate::support::{CEILING, TmuxServer, wait_for};

/// The number of lines of 490 bytes in a flood; in the end all of them wait in the program.
const LINES: u32 = 25_000;

/// The memory that the program may use: the 64 MiB that wait for its reader, as much on their way to the
/// log, and a working set.
const MEMORY_KB: u64 = 160 * 1024;

#[test]
fn a_program_with_unread_output_keeps_everything_in_bounded_memory() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("keeper", 40, 5, "exec cat");
    server.script("set-option -g history-limit 50000");
    let flood = format!(
        "tmux wait-for go; i=0; while [ $i -lt {LINES} ]; do \
         seq -f 'line %g. {}' $((i+1)) $((i+500)); i=$((i+500)); sleep 0.01; done; \
         echo the end; exec cat",
        "x".repeat(470)
    );
    let pane = server.new_session("flood", 490, 24, &flood);
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "--json", "--interval", "50ms", "flood"]);
    let mut command = program(&args, data.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let until_kept = |text: &str| {
        wait_for(&format!("{text:?} in the log"), CEILING, || {
            let runs = fs::read_dir(data.path().join("runs")).map_err(drop)?;
            let run = runs.flatten().next().ok_or(())?;
            let log = fs::read_to_string(run.path().join("events.jsonl")).map_err(drop)?;
            if log.contains(text) { Ok(()) } else { Err(()) }
        });
    };
    until_kept("SessionStarted");
    server.tmux(&["wait-for", "-S", "go"]);
    until_kept("the end");
    let peak = peak_kb(child.id()).unwrap();
    assert!(peak < MEMORY_KB, "{peak} kB");

    // Read at last, the output is complete except for dropped events, which are counted.
    let (mut received, mut missed) = (0, 0);
    let pid = Pid::from_child(&child);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let envelope: Envelope = serde_json::from_str(&line).unwrap();
        match &envelope.event {
            TdEvent::Unknown(event) if event.type_name() == "Lagged" => {
                missed += event.fields()["missed"].as_u64().unwrap();
            }
            TdEvent::OutputUpdate { chunk, .. } if chunk.ends_with("the end\n") => {
                received += 1;
                kill_process(pid, Signal::INT).unwrap();
            }
            // Events without a number are shown only, not logged.
            _ => received += u64::from(envelope.seq.is_some()),
        }
    }
    assert!(child.wait().unwrap().success());
    let logs = logs(data.path());
    let log = logs.values().next().unwrap();
    let kept = log.len() as u64 - 1;
    assert!(
        received + missed >= kept,
        "{received} and {missed} of {kept}"
    );
    let replay = Replay::of(log, &pane);
    assert_eq!(replay.gaps, []);
    let numbers = replay
        .texts()
        .iter()
        .filter(|text| text.starts_with("line "))
        .count();
    assert_eq!(numbers, LINES as usize);
}
