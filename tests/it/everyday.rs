//! Everyday situations in a pane, on real tmux: none of them is reported as a loss.
//!
//! `TD_EVERYDAY_ROUNDS` sets the number of rounds of all situations; defaults to 1.

use td_observe::{TdEvent, Watch};

use crate::observed::{Observed, shown};
use crate::stream::drain;
use crate::support::{CEILING, TmuxServer, wait_for};

/// A shell that prints when it is ready.
const SHELL: &str = "PS1='ready> ' exec bash --norc --noprofile";

/// One step of a situation.
#[derive(Clone, Copy)]
enum Step {
    /// Keys to type, as `send-keys` takes them.
    Keys(&'static [&'static str]),
    /// The test continues when the screen shows this.
    Shows(&'static str),
    /// The test continues when the first row of the screen begins with this.
    Top(&'static str),
    /// The test continues when the alternate screen is on, or off.
    Alternate(bool),
    /// A tmux command, with the pane as its target.
    Tmux(&'static [&'static str]),
    /// A channel on which a program in the pane waits with `tmux wait-for`.
    Signal(&'static str),
}

use Step::{Alternate, Keys, Shows, Signal, Tmux, Top};

/// A name, the pane's command, the steps, and whether the pane still exists afterwards.
type Situation = (&'static str, &'static str, &'static [Step], bool);

const SITUATIONS: &[Situation] = &[
    (
        "quiet",
        "echo begun; tmux wait-for quiet",
        &[Shows("begun"), Signal("quiet")],
        false,
    ),
    (
        "prints",
        "echo begun; tmux wait-for prints; echo one; echo two; exit 3",
        &[Shows("begun"), Signal("prints")],
        false,
    ),
    (
        "exit",
        SHELL,
        &[Shows("ready>"), Keys(&["exit", "Enter"])],
        false,
    ),
    ("ctrl-d", SHELL, &[Shows("ready>"), Keys(&["C-d"])], false),
    (
        "kill-pane",
        SHELL,
        &[Shows("ready>"), Tmux(&["kill-pane"])],
        false,
    ),
    (
        "kill-session",
        SHELL,
        &[Shows("ready>"), Tmux(&["kill-session"])],
        false,
    ),
    (
        "split",
        SHELL,
        &[
            Shows("ready>"),
            Tmux(&["split-window", "echo in the split; tmux wait-for split"]),
            Signal("split"),
            Keys(&["echo closed", "Enter"]),
            Shows("\nclosed"),
        ],
        true,
    ),
    (
        "clear",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["seq 40", "Enter"]),
            Shows("\n40\nready>"),
            Keys(&["clear", "Enter"]),
            Top("ready>"),
            Keys(&["echo cleared", "Enter"]),
            Shows("\ncleared"),
        ],
        true,
    ),
    (
        "ctrl-l",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["seq 40", "Enter"]),
            Shows("\n40\nready>"),
            Keys(&["C-l"]),
            Top("ready>"),
            Keys(&["echo cleared", "Enter"]),
            Shows("\ncleared"),
        ],
        true,
    ),
    (
        "vim",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["vi", "Enter"]),
            Alternate(true),
            Keys(&["ihello", "Escape"]),
            Shows("hello"),
            Keys(&[":q!", "Enter"]),
            Alternate(false),
            Keys(&["echo edited", "Enter"]),
            Shows("\nedited"),
        ],
        true,
    ),
    (
        "less",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["seq 200 | less", "Enter"]),
            Alternate(true),
            Keys(&["Space"]),
            Keys(&["q"]),
            Alternate(false),
            Keys(&["echo read", "Enter"]),
            Shows("\nread"),
        ],
        true,
    ),
    (
        "top",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["top -d 0.3", "Enter"]),
            Shows("PID"),
            Keys(&["q"]),
            Shows("ready>"),
            Keys(&["echo topped", "Enter"]),
            Shows("\ntopped"),
        ],
        true,
    ),
    (
        "progress",
        "for i in $(seq 1 60); do printf '\\r%3d%%|%*s|' $i $((i / 3)) ''; sleep 0.02; done; echo; \
         echo all; tmux wait-for progress",
        &[Shows("\nall"), Signal("progress")],
        false,
    ),
    (
        "resize",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["seq 40", "Enter"]),
            Shows("\n40\nready>"),
            Tmux(&["resize-window", "-x", "60", "-y", "20"]),
            Tmux(&["resize-window", "-x", "100", "-y", "30"]),
            Keys(&["echo resized", "Enter"]),
            Shows("\nresized"),
        ],
        true,
    ),
    (
        "reset",
        SHELL,
        &[
            Shows("ready>"),
            Keys(&["seq 10; reset; echo was $((1 + 1)) reset", "Enter"]),
            Shows("was 2 reset"),
        ],
        true,
    ),
];

/// Plays a situation up to its end.
#[track_caller]
fn play(server: &TmuxServer, pane: &str, (name, _, steps, _): &Situation) {
    let screen = || server.tmux(&["capture-pane", "-p", "-t", pane]);
    for step in *steps {
        match step {
            Keys(keys) => {
                server.tmux(&[&["send-keys", "-t", pane][..], keys].concat());
            }
            Shows(text) => wait_for(&format!("{text:?} in {name}"), CEILING, || {
                let shown = screen();
                if shown.contains(text) {
                    Ok(())
                } else {
                    Err(shown)
                }
            }),
            Top(text) => wait_for(&format!("{text:?} on top of {name}"), CEILING, || {
                let shown = screen();
                if shown.starts_with(text) {
                    Ok(())
                } else {
                    Err(shown)
                }
            }),
            Alternate(is_on) => {
                let expected = if *is_on { "1" } else { "0" };
                wait_for("the other screen", CEILING, || {
                    let on = server.tmux(&["display-message", "-p", "-t", pane, "#{alternate_on}"]);
                    if on == expected {
                        Ok(())
                    } else {
                        Err(screen())
                    }
                });
            }
            Tmux(command) => {
                server.tmux(&[&[command[0], "-t", pane][..], &command[1..]].concat());
            }
            Signal(channel) => {
                server.tmux(&["wait-for", "-S", channel]);
            }
        }
    }
}

/// Plays all situations side by side; returns what the observer reported.
#[track_caller]
fn observed(watch: impl Fn(Watch) -> Watch) -> Vec<(&'static str, Observed, String)> {
    let rounds = std::env::var("TD_EVERYDAY_ROUNDS");
    let rounds = rounds.map_or(1, |rounds| rounds.parse().unwrap());
    let mut all = Vec::new();
    for situation @ (name, command, _, is_left) in
        SITUATIONS.iter().cycle().take(rounds * SITUATIONS.len())
    {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        let pane = server.new_session("everyday", 80, 24, command);
        let mut observed = Observed::start(&server, &watch);
        observed.until_started(2);
        play(&server, &pane, situation);
        let is_closed = |e: &td_observe::Envelope| matches!(&e.event, TdEvent::PaneClosed { pane: closed, .. } if *closed == *pane);
        if *is_left {
            server.tmux(&[
                "send-keys",
                "-t",
                &pane,
                "echo $((40 + 2)) at last",
                "Enter",
            ]);
            observed.until_line("42 at last");
            server.tmux(&["send-keys", "-t", &pane, "exit", "Enter"]);
        }
        observed.until(&format!("the end of {name}"), |seen| {
            seen.iter().any(is_closed)
        });
        observed.stop();
        all.push((*name, observed, pane));
    }
    all
}

#[test]
fn streamed_situations_have_no_gap() {
    for (name, observed, pane) in observed(|watch| watch.stream(drain())) {
        let gaps = observed.replay(&pane).gaps;
        assert!(
            gaps.is_empty(),
            "{name}: {gaps:?}\n{}",
            shown(&observed.seen)
        );
    }
}

#[test]
fn polled_situations_have_no_confirmed_gap() {
    for (name, observed, pane) in observed(|watch| watch.poll()) {
        let replay = observed.replay(&pane);
        assert_eq!(
            replay.confirmed,
            0,
            "{name}: {:?}\n{}",
            replay.gaps,
            shown(&observed.seen)
        );
    }
}

#[test]
fn after_a_flood_of_equal_lines_later_ones_have_no_gap() {
    for flood in ["yes '' | head -n 30000", "yes same | head -n 30000"] {
        let server = TmuxServer::new();
        server.new_session("keeper", 80, 24, "exec cat");
        // What the server reads to name windows (command lines, /etc/passwd) has as many bytes as
        // hundreds of blank lines, and cannot be distinguished from them.
        server.script("set-option -g history-limit 1000\nset-option -g automatic-rename off");
        let program = format!(
            "tmux wait-for flood; {flood}; echo flood is over; tmux wait-for later; \
             for i in $(seq 1 25); do echo later $i; sleep 0.05; done; exec cat"
        );
        let pane = server.new_session("flood", 80, 24, &program);
        let mut observed = Observed::start(&server, |watch| watch.poll());
        observed.until_started(2);
        let types = |line: &str, observed: &mut Observed| {
            server.tmux(&["send-keys", "-t", "=keeper:", line, "Enter"]);
            observed.until_line(line);
        };
        server.tmux(&["wait-for", "-S", "flood"]);
        server.wait_for_text(&pane, "flood is over");
        // The server reads the flood while it answers captures, which then do not show how many lines
        // it printed. Two more captures are taken before the later lines come.
        types("first", &mut observed);
        types("second", &mut observed);
        server.tmux(&["wait-for", "-S", "later"]);
        observed.until_line("later 25");
        observed.stop();
        let replay = observed.replay(&pane);
        let texts = replay.texts();
        let first = texts.iter().position(|text| *text == "later 1");
        let first = first.unwrap_or_else(|| panic!("{flood}: {}", shown(&observed.seen)));
        let later: Vec<String> = (1..=25).map(|i| format!("later {i}")).collect();
        assert_eq!(texts[first..], later, "{flood}: each once");
        let own: Vec<_> = replay.gaps.iter().filter(|gap| gap.3 > first).collect();
        assert!(own.is_empty(), "{flood}: {own:?} of {:?}", replay.gaps);
    }
}
