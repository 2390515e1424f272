use std::path::Path;

use td_observe::tmux::{Server, Target};
use td_observe::{Builder, Delivery, Result, TdEvent, Watch};

/// Watches one tmux session until it is gone or prints `last`; returns the printed text.
pub fn watch_session(server: Server, session: &str, data: &Path, last: &str) -> Result<String> {
    let mut engine = Builder::new().data_dir(data).start()?;
    // Subscribe first, so that no event is missed.
    let mut events = engine.subscribe();
    engine.watch(Watch::new(server).target(Target::parse(session)?))?;
    let mut printed = String::new();
    for delivery in events.iter() {
        match delivery {
            Delivery::Event(envelope) => match &envelope.event {
                TdEvent::OutputUpdate { chunk, .. } => {
                    printed.push_str(chunk);
                    if chunk.lines().any(|line| line == last) {
                        break;
                    }
                }
                TdEvent::OutputGap { reason, .. } => printed.push_str(&format!("… {reason}\n")),
                TdEvent::SessionEnded { .. } => break,
                _ => {}
            },
            Delivery::Lagged { missed } => printed.push_str(&format!("… {missed} events\n")),
        }
    }
    // The last captures are taken and the log is written to its end.
    let report = engine.shutdown();
    assert!(report.panicked.is_empty(), "{report:?}");
    Ok(printed)
}
