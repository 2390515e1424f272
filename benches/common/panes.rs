//! Many panes on a private server, and an engine that watches all of them.

use std::fmt::Write;
use std::time::Duration;

use td_observe::{Builder, Delivery, Engine, Subscription, TdEvent, Watch};

use super::program::Program;
use super::support::{CEILING, TmuxServer};

/// The interval of all pollers.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// Returns a server with this many sessions of one pane each, `s0` and on; the first `printing` of them
/// print a line per second, the others nothing.
pub fn server(panes: usize, printing: usize) -> TmuxServer {
    let server = TmuxServer::new();
    let alive = Program::Alive.command();
    let program = |pane| if pane < printing { &alive } else { "exec cat" };
    server.new_session("s0", 80, 24, program(0));
    let mut script = String::new();
    for pane in 1..panes {
        writeln!(
            script,
            "new-session -d -x 80 -y 24 -s s{pane} \"{}\"",
            program(pane)
        )
        .unwrap();
    }
    server.script(&script);
    server
}

/// Starts an engine and waits until it watches this many sessions; returns it with its events.
pub fn watched(watch: Watch, sessions: usize) -> (Engine, Subscription) {
    let mut engine = Builder::new().capacity(1_000_000).start().unwrap();
    let mut events = engine.subscribe();
    engine.watch(watch).unwrap();
    let mut begun = 0;
    while begun < sessions {
        if let Delivery::Event(envelope) = events.recv_timeout(CEILING).unwrap() {
            begun += usize::from(matches!(envelope.event, TdEvent::SessionStarted { .. }));
        }
    }
    (engine, events)
}
