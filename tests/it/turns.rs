//! AI mode on real panes: each turn is reported once, whatever is typed, redrawn or resized, and the pane
//! rests afterwards.

use std::time::Duration;

use td_observe::agent::Markers;
use td_observe::tmux::Target;
use td_observe::wait::{Wait, WaitEnd, Waiter};
use td_observe::{Envelope, TdEvent, Watch};

use crate::cli::{Running, assert_code, program, text};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

const MARKER: &str = "[Output Complete]";

/// Answers each line with one line and the marker; `again` redraws the screen.
const AGENT: &str = r#"
all=''
say() { all="$all$1
"; printf '%s\n' "$1"; }
redraw() { clear; printf '%s' "$all"; }
trap redraw WINCH
while printf '> '; do
  IFS= read -r asked || continue
  case "$asked" in
    again) redraw; continue;;
    push) printf '\033[2J\033[H'; printf '%s' "$all" | tail -n 7; continue;;
  esac
  all="$all> $asked
"
  say "⏺ You asked: $asked"
  say ''
  say '[Output Complete]'
done"#;

fn ai(watch: Watch) -> Watch {
    watch.turns(Markers::default())
}

fn turns(seen: &[Envelope]) -> Vec<&TdEvent> {
    let is_turn = |event: &&TdEvent| matches!(event, TdEvent::TurnCompleted { .. });
    seen.iter()
        .map(|envelope| &envelope.event)
        .filter(is_turn)
        .collect()
}

/// An observed agent.
struct Agent {
    server: TmuxServer,
    pane: String,
    observed: Observed,
}

impl Agent {
    fn new(script: &str, set: impl FnOnce(Watch) -> Watch) -> Self {
        let server = TmuxServer::new();
        let file = server.directory().join("agent.sh");
        std::fs::write(&file, script).unwrap();
        let command = format!("exec bash {}", file.display());
        let pane = server.new_session("agent", 60, 12, &command);
        server.wait_for_text(&pane, ">");
        let target = Target::parse(&pane).unwrap();
        let mut observed = Observed::start(&server, |watch| set(watch.target(target)));
        observed.until_started(1);
        Self {
            server,
            pane,
            observed,
        }
    }

    fn types(&self, text: &str) {
        self.server
            .tmux(&["send-keys", "-t", &self.pane, "-l", text]);
        self.server.tmux(&["send-keys", "-t", &self.pane, "Enter"]);
    }

    #[track_caller]
    fn until_turns(&mut self, count: usize) {
        let what = format!("{count} turns");
        self.observed
            .until(&what, |seen| turns(seen).len() >= count);
    }

    /// Waits until the screen was redrawn.
    #[track_caller]
    fn until_drawn(&self) {
        let pane = self.pane.clone();
        wait_for("a screen that is drawn anew", CEILING, || {
            let screen = self.server.screen(&pane);
            // The prompt, and nothing below it.
            if screen.lines().count() < 10 && screen.trim_end().ends_with('>') {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }

    /// Returns the number of captures of the server's panes.
    fn captures(&self) -> u32 {
        let count = self.server.tmux(&["show-options", "-gqv", "@captures"]);
        count.parse().unwrap_or(0)
    }
}

#[test]
fn three_questions_that_contain_the_marker_are_three_turns() {
    let mut agent = Agent::new(AGENT, ai);
    let questions = [
        "say [Output Complete]",
        // Two rows of the pane.
        "please explain at length what is meant by the words [Output Complete]",
        MARKER,
    ];
    for (count, question) in (1..).zip(questions) {
        agent.types(question);
        agent.until_turns(count);
    }
    agent.observed.stop();
    let seen = &agent.observed.seen;
    assert_eq!(turns(seen).len(), 3, "{}", shown(seen));
    let mut complete = 0;
    for (before, after) in seen.iter().zip(&seen[1..]) {
        let TdEvent::TurnCompleted {
            marker,
            pane,
            summary,
            evidence,
            ..
        } = &after.event
        else {
            continue;
        };
        assert_eq!((marker.as_str(), evidence), (MARKER, &None));
        assert_eq!(
            pane.as_ref().map(|pane| pane.as_str()),
            Some(agent.pane.as_str())
        );
        assert_eq!(summary, &format!("You asked: {}", questions[complete]));
        let TdEvent::OutputUpdate {
            chunk,
            is_complete,
            reason,
            ..
        } = &before.event
        else {
            panic!("{before:?}")
        };
        assert!(
            *is_complete && chunk.ends_with(&format!("{MARKER}\n")),
            "{before:?}"
        );
        assert_eq!(reason.as_ref().map(|reason| reason.as_str()), Some("turn"));
        complete += 1;
    }
    assert_eq!(complete, 3);
    let settled = Replay::of(seen, &agent.pane).settled;
    let markers = settled.iter().filter(|(_, line)| *line == MARKER).count();
    assert_eq!(markers, 3, "the law holds: {settled:?}");
}

#[test]
fn a_repaint_and_a_resize_end_no_turn() {
    let mut agent = Agent::new(AGENT, ai);
    agent.types("the first question");
    agent.until_turns(1);
    agent.types("the second question");
    agent.until_turns(2);
    for (count, redraw) in (3..).zip(["again", "push", "resize"]) {
        if redraw == "resize" {
            let window = ["resize-window", "-t", "agent", "-x", "41", "-y", "9"];
            agent.server.tmux(&window);
            agent.observed.until("the new size", |seen| {
                let resized = |event: &TdEvent| matches!(event, TdEvent::PaneResized { .. });
                seen.iter().any(|envelope| resized(&envelope.event))
            });
        } else {
            agent.types(redraw);
            agent.until_drawn();
            if redraw == "push" {
                // The screen after that has to be captured first.
                agent.observed.until_line("> push");
            }
        }
        // The next question is the third turn, and the only new one.
        let question = format!("after {redraw}");
        agent.types(&question);
        agent.until_turns(count);
        let last = turns(&agent.observed.seen)[count - 1];
        let TdEvent::TurnCompleted { summary, .. } = last else {
            unreachable!()
        };
        assert_eq!(
            summary,
            &format!("You asked: {question}"),
            "{}",
            shown(&agent.observed.seen)
        );
    }
    agent.observed.stop();
    assert_eq!(turns(&agent.observed.seen).len(), 5);
}

#[test]
fn a_full_screen_agent_has_turns() {
    let script = r#"
printf '\033[?1049h\033[2J\033[Hagent\n'
n=0
while printf '> '; do
  IFS= read -r asked || exit
  n=$((n+1))
  printf '⏺ Answer %s to %s\n[Output Complete]\n' "$n" "$asked"
done"#;
    let mut agent = Agent::new(script, ai);
    for count in 1..=6 {
        // The screen scrolls from the third question on.
        agent.types("a [Output Complete] question");
        agent.until_turns(count);
    }
    agent.observed.stop();
    assert_eq!(turns(&agent.observed.seen).len(), 6);
}

#[test]
fn without_the_mode_for_agents_a_marker_is_text() {
    let mut agent = Agent::new(AGENT, |watch| watch);
    for question in ["one", "two"] {
        agent.types(question);
        agent
            .observed
            .until_line(&format!("⏺ You asked: {question}"));
    }
    agent.observed.stop();
    assert_eq!(turns(&agent.observed.seen), Vec::<&TdEvent>::new());
    let replay = agent.observed.replay(&agent.pane);
    let markers = replay.texts().into_iter().filter(|text| *text == MARKER);
    assert_eq!(markers.count(), 2);
}

#[test]
fn silence_ends_a_turn_if_enabled_and_is_reported_as_inferred() {
    let script = "while printf '> ' && IFS= read -r asked; do echo \"about $asked\"; done";
    let mut agent = Agent::new(script, |watch| {
        ai(watch).infer_turns_after(Duration::from_millis(700))
    });
    agent.types("this");
    agent.until_turns(1);
    let TdEvent::TurnCompleted {
        marker,
        evidence,
        summary,
        ..
    } = turns(&agent.observed.seen)[0]
    else {
        unreachable!()
    };
    assert_eq!(
        (
            marker.as_str(),
            evidence.as_ref().map(|evidence| evidence.as_str())
        ),
        ("", Some("inferred"))
    );
    assert_eq!(summary, "about this");
    agent.types("that");
    agent.until_turns(2);
    agent.observed.stop();
    assert_eq!(turns(&agent.observed.seen).len(), 2);
}

#[test]
fn wait_returns_at_the_end_of_a_turn() {
    let server = TmuxServer::new();
    let script = "echo '[Output Complete]'; while printf '> ' && IFS= read -r asked; do \
        echo \"about $asked\"; echo '● [Output Complete]'; done";
    let pane = server.new_session("agent", 60, 12, script);
    server.wait_for_text(&pane, ">");
    let waiter = Waiter::new(server.server()).unwrap();
    let agent = Wait::at(Target::parse("agent").unwrap()).turn(Markers::default());
    let stale = waiter.wait(&agent.clone().timeout(Duration::from_millis(400)));
    assert_eq!(stale.unwrap().end, WaitEnd::TimedOut, "it stood there");
    for question in ["one [Output Complete] question", "another"] {
        let started = waiter.start(&agent.clone().timeout(CEILING)).unwrap();
        server.tmux(&["send-keys", "-t", &pane, "-l", question]);
        server.tmux(&["send-keys", "-t", &pane, "Enter"]);
        let waited = started.finish().unwrap();
        let WaitEnd::Matched(found) = &waited.end else {
            panic!("{waited:?}")
        };
        assert_eq!(
            (found.condition.as_str(), found.pattern.as_deref()),
            ("turn", Some(MARKER))
        );
        assert_eq!(found.text, Some(format!("about {question}")));
    }
    // An agent that ends right after its marker.
    let started = waiter.start(&agent.clone().timeout(CEILING)).unwrap();
    let last = [
        "respawn-pane",
        "-k",
        "-t",
        &pane,
        "printf 'last\n[Output Complete]\n'",
    ];
    server.tmux(&last);
    let waited = started.finish().unwrap();
    let is_honest = match &waited.end {
        WaitEnd::Matched(found) => found.text.as_deref() == Some("last"),
        WaitEnd::Ended(_) => waited.lost_lines,
        _ => false,
    };
    assert!(is_honest, "{waited:?}");
}

#[test]
fn commands_are_run_at_the_ends_of_turns_and_sessions_once_each() {
    let server = TmuxServer::new();
    let script = "while printf '> ' && IFS= read -r asked && [ \"$asked\" != quit ]; do \
        echo \"about $asked\"; echo '[Output Complete]'; done";
    let pane = server.new_session("agent", 60, 12, script);
    server.wait_for_text(&pane, ">");
    let (file, data) = (
        server.directory().join("told"),
        server.directory().join("data"),
    );
    let append = |what: &str| {
        format!(
            "read -r event; echo \"{what} $TD_EVENT $TD_SESSION $TD_SUMMARY $event\" >> {}; echo seen",
            file.display()
        )
    };
    let socket = server.socket();
    let (on_turn, on_end) = (append("turn"), append("end"));
    let args = [
        "-S",
        socket.to_str().unwrap(),
        "watch",
        "agent",
        "--mode",
        "ai",
        "--on-turn",
        &on_turn,
        "--on-end",
        &on_end,
    ];
    let mut watch = Running::start(program(&args, &data));
    watch.wait_for("watching");
    let lines = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (count, question) in (1..).zip(["one", "two"]) {
        server.tmux(&["send-keys", "-t", &pane, question, "Enter"]);
        wait_for("the command", CEILING, || {
            if lines().len() >= count {
                Ok(())
            } else {
                Err(lines())
            }
        });
    }
    server.tmux(&["send-keys", "-t", &pane, "quit", "Enter"]);
    let ended = watch.end();
    assert_code(&ended, 0);
    let lines = lines();
    let begins = [
        "turn TurnCompleted agent about one {\"seq\":",
        "turn TurnCompleted agent about two {\"seq\":",
        "end SessionEnded agent  {\"seq\":",
    ];
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
        let event = &line[line.find('{').unwrap()..];
        td_observe::internals::history::parse_line(event.as_bytes()).unwrap();
    }
    assert!(text(&ended.stderr).contains("[on-turn] seen"), "{ended:?}");
}

#[test]
fn a_pane_rests_after_its_turn_until_a_change_or_a_request() {
    let mut agent = Agent::new(AGENT, ai);
    let count = "set-option -gF @captures '#{e|+:#{@captures},1}'";
    agent.server.tmux(&["set-option", "-g", "@captures", "0"]);
    agent
        .server
        .tmux(&["set-hook", "-g", "after-capture-pane", count]);
    agent.types("a question");
    agent.until_turns(1);
    // A pane in the same window prints a lot. Its output must not wake the resting pane, of which nothing
    // would be certain without a capture.
    let ticks = "while :; do echo tick; sleep 0.05; done";
    let split = ["split-window", "-d", "-t", &agent.pane, ticks];
    agent.server.tmux(&split);
    let mut before = agent.captures();
    let mut since = std::time::Instant::now();
    wait_for("three seconds without a capture", CEILING, || {
        let now = agent.captures();
        if now != before {
            (before, since) = (now, std::time::Instant::now());
        }
        if since.elapsed() > Duration::from_secs(3) {
            Ok(())
        } else {
            Err(now)
        }
    });
    agent.observed.engine().poll_now();
    wait_for("a capture", CEILING, || {
        if agent.captures() > before {
            Ok(())
        } else {
            Err(before)
        }
    });
    agent.types("another one");
    agent.until_turns(2);
    agent.observed.stop();
}
