//! An observer that is stopped while panes flood: the panes are not affected, and the missed lines are
//! counted.

use td_observe::Envelope;

use crate::faults::watcher::Watcher;
use crate::observed::{Replay, shown};
use crate::resources::peak_kb;
use crate::support::{Stopped, TmuxServer};

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("line ")?.parse().ok()
}

/// Returns the reports other than lines.
fn story(seen: &[Envelope]) -> String {
    let is_line = |e: &&Envelope| !e.event.type_name().starts_with("Output");
    let is_gap = |e: &&Envelope| e.event.type_name() == "OutputGap";
    let reports = seen.iter().filter(|e| is_line(e) || is_gap(e));
    shown(&reports.cloned().collect::<Vec<_>>())
}

/// Floods a pane with numbered lines of this width while the observer is stopped; returns its reports
/// afterwards.
fn flooded(lines: u64, width: usize, has_gap: bool) -> Vec<Envelope> {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = format!(
        "tmux wait-for go; seq -f 'line %0{width}.0f' 1 {lines}; tmux wait-for -S done; \
         tmux wait-for more; echo the end; exec cat"
    );
    let pane = server.new_session("flood", 80, 24, &program);
    let mut watch = Watcher::start(&server, data.path(), &["--source", "stream"]);
    watch.until_started("flood", 1);
    {
        let _stopped = Stopped::new(watch.pid());
        server.tmux(&["wait-for", "-S", "go"]);
        server.tmux(&["wait-for", "done"]);
        let server = server.pid().as_raw_nonzero().get().cast_unsigned();
        let peak = peak_kb(server).unwrap();
        assert!(peak < 50_000, "the server held {peak} kB");
    }
    if has_gap {
        // Output before the gap has no room either.
        let is_gap = |envelope: &Envelope| envelope.event.type_name() == "OutputGap";
        watch.until("the gap", |seen| seen.last().is_some_and(is_gap));
    }
    server.tmux(&["wait-for", "-S", "more"]);
    watch.until_line("flood", "the end");
    let seen = watch.stop();
    let replay = Replay::of(&seen, &pane);
    // Each line once and in order, or counted in a gap.
    let (mut next, mut gaps) = (1, replay.gaps.iter().peekable());
    for (at, (place, text)) in replay.settled.iter().enumerate() {
        while let Some((_, lost, reason, _)) = gaps.next_if(|gap| gap.3 == at) {
            assert_eq!(reason, "dropped", "{}", story(&seen));
            next += lost.expect("a count");
        }
        match number(text) {
            Some(number) => assert_eq!(number, next, "at {at}, gaps {:?}", replay.gaps),
            None => assert_eq!((text.as_str(), next), ("the end", lines + 1)),
        }
        assert_eq!(*place, next.cast_signed());
        next += 1;
    }
    assert_eq!(gaps.next(), None);
    assert_eq!(next, lines + 2);
    seen
}

#[test]
fn output_within_the_backlog_is_reported_later() {
    let seen = flooded(400_000, 20, false);
    let gap = |envelope: &&Envelope| envelope.event.type_name() == "OutputGap";
    assert_eq!(seen.iter().filter(gap).count(), 0);
}

#[test]
fn output_beyond_the_backlog_is_counted_exactly() {
    // 120 MB, of which 64 MiB are kept.
    let seen = flooded(800_000, 144, true);
    let gap = |envelope: &&Envelope| envelope.event.type_name() == "OutputGap";
    assert!(seen.iter().filter(gap).count() >= 1);
}
