//! Panes that change their window or session, and windows in two sessions: each pane has one owner at a
//! time.

use td_observe::{Envelope, TdEvent};

use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Observed, Replay, shown};
use crate::support::TmuxServer;

/// Checks that a program's lines occur once in the runs of these sessions taken one after the other, or
/// that gaps cover the missing ones. Returns the number of lines in each run.
#[track_caller]
fn once_over(observed: &Observed, names: &[&str], pane: &str, program: &Counting) -> Vec<u64> {
    let (mut counts, mut next) = (Vec::new(), None);
    for name in names {
        let runs = runs_of(&observed.seen, name);
        assert_eq!(runs.len(), 1, "{name}: {runs:?}");
        let run = of_run(&observed.seen, &runs[0]);
        let replay = Replay::of(&run, pane);
        let Counted { settled, .. } = Counted::of(&replay, &["the end"]);
        counts.push(settled.end - settled.start);
        if settled.is_empty() {
            continue;
        }
        if let Some(expected) = next {
            assert!(
                settled.start >= expected,
                "twice from {} on: {}",
                settled.start,
                shown(&run)
            );
            let first = replay.gaps.first().is_some_and(|gap| gap.3 == 0);
            assert!(
                settled.start == expected || first,
                "{expected}..{} are missing silently: {}",
                settled.start,
                shown(&run)
            );
        }
        next = Some(settled.end);
    }
    assert_eq!(
        next,
        Some(program.printed() + 1),
        "{}",
        shown(&observed.seen)
    );
    counts
}

/// A pane that prints numbered lines in its own server, and its observed events.
struct Scene {
    observed: Observed,
    program: Counting,
    pane: String,
    server: TmuxServer,
}

impl Scene {
    /// Creates sessions in this order and observes them once `prepare` has changed the pane. The program
    /// is in the session `home`.
    #[track_caller]
    fn new(names: &[&str], home: &str, prepare: impl FnOnce(&TmuxServer, &str)) -> Self {
        let server = TmuxServer::new();
        let program = Counting::new(&server, "program", "0.01");
        let mut pane = String::new();
        for name in names {
            if *name == home {
                pane = server.new_session(name, 60, 12, &program.command());
            } else {
                server.new_session(name, 60, 12, "exec cat");
            }
        }
        prepare(&server, &pane);
        let mut observed = Observed::all(&server);
        observed.until_started(names.len());
        let mut scene = Self {
            observed,
            program,
            pane,
            server,
        };
        scene.more();
        scene
    }

    /// Lets the program print some lines and waits until they are reported.
    #[track_caller]
    fn more(&mut self) {
        let printed = self.program.until_more(15);
        self.observed.until_line(&format!("line {printed}."));
    }

    /// Runs a tmux command on the pane, and waits for more lines.
    #[track_caller]
    fn then(&mut self, args: &[&str]) {
        self.server.tmux(args);
        self.more();
    }

    /// Stops the observer, runs a tmux command on the pane, and goes on with another observer, which finds this many
    /// sessions. Waits for more lines, and returns the events of the first one.
    #[track_caller]
    fn then_unobserved(&mut self, args: &[&str], sessions: usize) -> Vec<Envelope> {
        self.observed.stop();
        self.server.tmux(args);
        self.program.until_more(5);
        let next = Observed::all(&self.server);
        let before = std::mem::replace(&mut self.observed, next);
        self.observed.until_started(sessions);
        self.more();
        before.seen
    }

    /// Ends the program after these events, and checks that all its lines are reported once and without gaps.
    #[track_caller]
    fn ends_whole(mut self, mut before: Vec<Envelope>) {
        self.program.end();
        self.observed.until_line("the end");
        self.observed.stop();
        before.append(&mut self.observed.seen);
        // All sessions together, in the order of the reports.
        let replay = Replay::of(&before, &self.pane);
        let counted = Counted::of(&replay, &["the end"]);
        assert_eq!((&counted.missing[..], &replay.gaps[..]), (&[][..], &[][..]));
        assert_eq!(counted.settled.end, self.program.printed() + 1);
    }

    /// Ends the program; returns the number of lines in the run of each session, taken one after the
    /// other.
    #[track_caller]
    fn end(&mut self, names: &[&str]) -> Vec<u64> {
        self.program.end();
        self.observed.until_line("the end");
        self.observed.stop();
        once_over(&self.observed, names, &self.pane, &self.program)
    }
}

#[test]
fn a_pane_moved_between_windows_of_its_session_is_the_same_pane() {
    let mut scene = Scene::new(&["home"], "home", |server, _| {
        server.tmux(&["new-window", "-d", "-t", "=home:9", "exec cat"]);
    });
    let pane = scene.pane.clone();
    scene.then(&["join-pane", "-d", "-s", &pane, "-t", "=home:9"]);
    scene.then(&["break-pane", "-d", "-s", &pane]);
    scene.then(&["move-pane", "-d", "-h", "-s", &pane, "-t", "=home:9"]);
    scene.then(&["swap-pane", "-d", "-U", "-t", &pane]);
    scene.end(&["home"]);
    let replay = scene.observed.replay(&pane);
    assert_eq!(Counted::of(&replay, &["the end"]).missing, []);
    let seen = &scene.observed.seen;
    let opened = seen.iter().filter(
        |envelope| matches!(&envelope.event, TdEvent::PaneOpened { pane: of, .. } if *of == *pane),
    );
    assert_eq!(opened.count(), 1, "{}", shown(seen));
}

#[test]
fn a_pane_moved_to_another_session_continues_there_at_the_same_line() {
    let mut scene = Scene::new(&["from", "to"], "from", |server, pane| {
        server.tmux(&["split-window", "-d", "-t", pane, "exec cat"]);
    });
    let pane = scene.pane.clone();
    scene.then(&["move-pane", "-d", "-s", &pane, "-t", "=to:"]);
    let counts = scene.end(&["from", "to"]);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn a_pane_moved_back_and_forth_at_any_time_is_reported_once() {
    let mut scene = Scene::new(&["one", "two"], "one", |server, pane| {
        server.tmux(&["split-window", "-d", "-t", pane, "exec cat"]);
    });
    let pane = scene.pane.clone();
    // The moves also happen between a listing and a capture, with more or fewer lines in between.
    for round in 0..12 {
        let to = ["=two:", "=one:"][round % 2];
        scene
            .server
            .tmux(&["move-pane", "-d", "-s", &pane, "-t", to]);
        scene.program.until_more(1 + 7 * (round as u64 % 3));
    }
    scene.more();
    scene.program.end();
    scene.observed.until_line("the end");
    scene.observed.stop();
    // All sessions together, in the order of the reports.
    let counted = Counted::of(&Replay::of(&scene.observed.seen, &pane), &["the end"]);
    assert_eq!(counted.missing, [], "{}", shown(&scene.observed.seen));
    assert_eq!(counted.settled.end, scene.program.printed() + 1);
}

#[test]
fn a_pane_moved_while_nothing_observes_it_continues_in_the_other_session() {
    let mut scene = Scene::new(&["one", "two"], "one", |server, pane| {
        server.tmux(&["split-window", "-d", "-t", pane, "exec cat"]);
    });
    let pane = scene.pane.clone();
    let mut seen = Vec::new();
    for to in ["=two:", "=one:", "=two:"] {
        seen.extend(scene.then_unobserved(&["move-pane", "-d", "-s", &pane, "-t", to], 2));
    }
    scene.ends_whole(seen);
}

#[test]
fn a_pane_whose_session_ends_with_its_move_continues_in_the_other_session() {
    let mut scene = Scene::new(&["one", "two"], "one", |_, _| {});
    let pane = scene.pane.clone();
    let to_the_other = ["move-pane", "-d", "-s", &pane, "-t", "=two:"];
    let seen = scene.then_unobserved(&to_the_other, 1);
    scene.ends_whole(seen);
}

#[test]
fn a_pane_that_returns_to_a_resumed_run_continues_where_the_other_session_stopped() {
    let mut scene = Scene::new(&["one", "two"], "one", |server, pane| {
        server.tmux(&["split-window", "-d", "-t", pane, "exec cat"]);
    });
    let pane = scene.pane.clone();
    scene.then(&["move-pane", "-d", "-s", &pane, "-t", "=two:"]);
    let seen = scene.then_unobserved(&["list-sessions"], 2);
    scene.then(&["move-pane", "-d", "-s", &pane, "-t", "=one:"]);
    scene.ends_whole(seen);
}

#[test]
fn a_window_linked_into_a_later_session_stays_with_the_first() {
    let mut scene = Scene::new(&["first", "second"], "first", |_, _| {});
    scene.then(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
    scene.then(&["unlink-window", "-t", "=second:7"]);
    assert_eq!(scene.end(&["first", "second"])[1], 0);
    assert_eq!(scene.observed.replay(&scene.pane).gaps, []);
}

#[test]
fn a_window_linked_from_the_beginning_is_reported_once() {
    let mut scene = Scene::new(&["first", "second"], "first", |server, _| {
        server.tmux(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
        // A session of the same group shows the same windows.
        server.tmux(&["new-session", "-d", "-s", "third", "-t", "=first"]);
    });
    assert_eq!(scene.end(&["first", "second"])[1], 0);
    let pane = &scene.pane;
    let of_pane = |envelope: &&Envelope| envelope.event.pane().is_some_and(|of| *of == **pane);
    let ids = scene.observed.seen.iter().filter(of_pane);
    let ids: Vec<&str> = ids.map(|envelope| envelope.event.execution_id()).collect();
    assert!(ids.iter().all(|id| id.starts_with("first@")), "{ids:?}");
}

#[test]
fn a_window_linked_into_an_earlier_session_continues_there() {
    let mut scene = Scene::new(&["first", "second"], "second", |_, _| {});
    scene.then(&["link-window", "-d", "-s", "=second:0", "-t", "=first:7"]);
    scene.end(&["second", "first"]);
}

#[test]
fn a_linked_window_continues_in_the_other_session_when_its_owner_ends() {
    let mut scene = Scene::new(&["first", "second"], "first", |server, _| {
        server.tmux(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
    });
    scene.then(&["kill-session", "-t", "=first"]);
    scene.end(&["first", "second"]);
}
