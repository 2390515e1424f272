//! The loop: the cost of observing and recording it, which is at most 5 %.
//!
//! An agent prints tokens for a second, and a check runs; a loop with an engine, its log and a subscriber
//! is compared with the same loop without an emitter.

use std::path::Path;
use std::time::Instant;

use serde_json::Map;
use td_observe::Builder;
use td_observe::agent::Format;
use td_observe::agent_loop::{CommandClient, LoopEngine, Spec};
use td_observe::process::Command;

use crate::common::paired;
use crate::common::program::Program;
use crate::common::table::Table;

pub fn run(table: &mut Table) {
    for rate in [50, 1000] {
        let bursts = Program::Bursts {
            rate,
            time_ms: 1000,
        };
        let command = bursts.command();
        let plain = || {
            let temp = tempfile::tempdir().unwrap();
            let began = Instant::now();
            assert!(looping(&command, temp.path()).run(None).success);
            began.elapsed().as_secs_f64()
        };
        let observed = || {
            let temp = tempfile::tempdir().unwrap();
            let work = temp.path().join("work");
            std::fs::create_dir(&work).unwrap();
            let began = Instant::now();
            let data = temp.path().join("data");
            let mut engine = Builder::new().data_dir(data).start().unwrap();
            let mut events = engine.subscribe();
            let looping = engine
                .run_loop(None, looping(&command, &work), Map::new())
                .unwrap();
            assert!(looping.wait().unwrap().success);
            let took = began.elapsed().as_secs_f64();
            engine.shutdown();
            // Tokens that arrive together are one event.
            assert!(events.iter().count() > 10);
            took
        };
        let what = format!("a loop whose agent prints {rate} tokens a second, seen and kept");
        paired::row(table, &what, &plain, &observed);
    }
}

fn looping(command: &str, directory: &Path) -> LoopEngine {
    let agent = CommandClient::new(Command::shell(command).format(Format::Text));
    LoopEngine::of_command(Spec::of_task("Count").check("true"), agent).directory(directory)
}
