//! The states of agents in real panes: each change is reported once, when it has lasted for some time,
//! and runs a command.

use td_observe::agent::StateRules;
use td_observe::{Envelope, TdEvent};

use crate::cli::{Running, assert_code, program, run, text};
use crate::observed::Observed;
use crate::support::{CEILING, TmuxServer, wait_for};

/// A script that draws the screens of an agent.
pub const AGENT: &str = r#"
stty -echo
line='────────────────────────────────────────────────────────'
box() { printf '%s\n❯ \n%s\n  ? for shortcuts' "$line" "$line"; }
draw() {
  printf '\033[H\033[J❯ fix the test (%s)\n\n⏺ I look at it.\n\n' "$2"
  case "$1" in
    working) printf '✻ Herding… (12s · ↓ 300 tokens · esc to interrupt)\n\n'; box;;
    waiting) printf '%s\n Bash command\n\n   rm -rf build\n\n Do you want to proceed?\n ❯ 1. Yes\n' "$line"
      printf '   2. No, and tell Claude what to do differently (esc)\n\n Esc to cancel · Tab to amend';;
    idle) box;;
    menu) printf 'Pick a session\n\n  fix the test\n  build it\n';;
    done) printf '✻ Baked for 1m 2s\n\n'; box;;
  esac
}
draw idle 0
count=0
while IFS= read -r state; do
  count=$((count + 1))
  case "$state" in
    flicker) draw working 0; draw idle 0; draw working $count;;
    1) draw done $count;;
    *) draw "$state" $count;;
  esac
done"#;

fn script(server: &TmuxServer) -> String {
    let file = server.directory().join("agent.sh");
    std::fs::write(&file, AGENT).unwrap();
    file.display().to_string()
}

/// Returns a command that becomes Claude Code, as far as its process and its screens show.
pub fn claude(server: &TmuxServer) -> String {
    format!("exec bash -c 'exec -a claude bash {}'", script(server))
}

pub fn start(server: &TmuxServer) -> String {
    let command = format!("exec bash {}", script(server));
    let pane = server.new_session("agent", 70, 20, &command);
    server.wait_for_text(&pane, "(0)");
    pane
}

pub fn set_state(server: &TmuxServer, pane: &str, state: &str) {
    server.tmux(&["send-keys", "-t", pane, state, "Enter"]);
}

/// Returns the reported states with their details, after checking that the screen is their only evidence.
fn states(seen: &[Envelope]) -> Vec<(&str, &str)> {
    seen.iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::AgentState {
                state,
                evidence,
                source,
                detail,
                ..
            } => {
                assert_eq!(
                    source.as_ref().map(|source| source.as_str()),
                    Some("screen")
                );
                assert_eq!(
                    evidence.as_str(),
                    "inferred",
                    "no process of an agent is there"
                );
                Some((state.as_str(), detail.as_deref().map_or("", String::as_str)))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn each_state_is_reported_once() {
    let server = TmuxServer::new();
    let pane = start(&server);
    let mut observed = Observed::start(&server, |watch| watch.states(StateRules::builtin()));
    observed.until_started(1);
    for (count, (state, expected)) in (1..).zip([
        ("", "idle"),
        ("working", "working"),
        ("flicker", "waiting"),
        ("done", "done"),
    ]) {
        if !state.is_empty() {
            set_state(&server, &pane, state);
        }
        if state == "flicker" {
            server.wait_for_text(&pane, "(2)");
            set_state(&server, &pane, "waiting");
        }
        let what = format!("the state {expected}");
        observed.until(&what, |seen| states(seen).len() >= count);
    }
    observed.stop();
    let states = states(&observed.seen);
    let expected = [
        ("idle", "empty-input: ❯"),
        (
            "working",
            "spinner: ✻ Herding… (12s · ↓ 300 tokens · esc to interrupt)",
        ),
        ("waiting", "choice: ❯ 1. Yes"),
        ("done", "turn-time: ✻ Baked for 1m 2s"),
    ];
    assert_eq!(states, expected);
}

/// Returns the ids of the questions in the reported states, `None` for a state without one.
fn question_ids(seen: &[Envelope]) -> Vec<Option<&str>> {
    seen.iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::AgentState { question_id, .. } => {
                Some(question_id.as_deref().map(String::as_str))
            }
            _ => None,
        })
        .collect()
}

/// A script asks, continues, and asks again. Text that is typed and not yet sent is no answer.
#[test]
fn a_question_is_over_when_it_is_answered() {
    let server = TmuxServer::new();
    let script = "n=0; while :; do n=$((n+1)); printf 'overwrite %s? [y/N] ' $n; read a; \
                  echo \"got <$a>\"; read; done";
    let file = server.directory().join("asks.sh");
    std::fs::write(&file, script).unwrap();
    let pane = server.new_session("asks", 70, 20, &format!("exec bash {}", file.display()));
    server.wait_for_text(&pane, "overwrite 1?");
    let mut observed = Observed::start(&server, |watch| watch.states(StateRules::builtin()));
    observed.until_started(1);
    observed.until("the question", |seen| states(seen).len() == 1);
    server.tmux(&["send-keys", "-t", &pane, "y"]);
    server.wait_for_text(&pane, "1? [y/N] y");
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    observed.until("the work", |seen| states(seen).len() == 2);
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    observed.until("the next question", |seen| states(seen).len() == 3);
    observed.stop();
    let states: Vec<&str> = states(&observed.seen)
        .iter()
        .map(|(state, _)| *state)
        .collect();
    assert_eq!(states, ["waiting", "working", "waiting"]);
    let ids = question_ids(&observed.seen);
    assert!(ids[0].is_some() && ids[2].is_some(), "{ids:?}");
    assert_ne!(ids[0], ids[2], "another question has another id");
    assert_eq!(ids[1], None, "work has no question");
}

/// A script that prints nothing after an answer works: the line of its question is ended, with or without a word in it.
/// A script that ends this line itself waits below it.
#[test]
fn a_question_is_over_when_its_line_is_ended() {
    let server = TmuxServer::new();
    let script = "printf 'overwrite it? [y/N] '; read a; read; printf 'remove it? [y/N] '; read a; read; \
                  echo 'proceed? [y/N]'; read a; read; echo 'proceed? [y/N]'; read a; read; echo over; cat";
    let file = server.directory().join("asks.sh");
    std::fs::write(&file, script).unwrap();
    let pane = server.new_session("asks", 70, 20, &format!("exec bash {}", file.display()));
    let mut observed = Observed::start(&server, |watch| watch.states(StateRules::builtin()));
    observed.until_started(1);
    let answers: [&[&str]; 4] = [&["y", "Enter"], &["Enter"], &["Enter"], &["y", "Enter"]];
    let mut count = 0;
    for answer in answers {
        count += 1;
        observed.until("the question", |seen| states(seen).len() == count);
        let keys = [&["send-keys", "-t", &pane], answer].concat();
        server.tmux(&keys);
        count += 1;
        observed.until("the work", |seen| states(seen).len() == count);
        server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    }
    server.wait_for_text(&pane, "over");
    observed.stop();
    let states = states(&observed.seen);
    let states: Vec<&str> = states.iter().map(|(state, _)| *state).collect();
    assert_eq!(states, ["waiting", "working"].repeat(4));
}

#[test]
fn a_command_is_run_when_a_pane_enters_a_state() {
    let server = TmuxServer::new();
    let pane = start(&server);
    let (file, data) = (
        server.directory().join("told"),
        server.directory().join("data"),
    );
    let on = |state: &str| {
        let file = file.display();
        format!(
            "{state}=echo \"$TD_STATE $TD_SESSION $TD_PANE $TD_AGENT $TD_EVIDENCE $TD_TITLE\" >> {file}; \
             cat >> {file}.json"
        )
    };
    server.tmux(&["select-pane", "-t", &pane, "-T", "Fixing the test"]);
    let (on_waiting, on_any) = (on("waiting"), on("any"));
    let socket = server.socket();
    let args = [
        "-S",
        socket.to_str().unwrap(),
        "watch",
        "agent",
        "--now",
        "--on-state",
        &on_waiting,
        "--on-state",
        &on_any,
    ];
    let mut watch = Running::start(program(&args, &data));
    watch.wait_for("watching");
    let until = |count: usize| {
        wait_for("the commands", CEILING, || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            if lines.len() >= count {
                Ok(lines)
            } else {
                Err(lines)
            }
        })
    };
    until(1);
    set_state(&server, &pane, "waiting");
    watch.wait_for("[claude waits for you");
    let lines = until(3);
    let waiting = format!("waiting agent {pane} claude inferred Fixing the test");
    let idle = format!("idle agent {pane} claude inferred Fixing the test");
    assert_eq!(lines, [idle, waiting.clone(), waiting]);
    let events = std::fs::read_to_string(file.with_extension("json")).unwrap();
    for line in events.lines() {
        let event = &serde_json::from_str::<serde_json::Value>(line).unwrap()["event"];
        assert_eq!(
            (&event["session"], &event["title"]),
            (&"agent".into(), &"Fixing the test".into())
        );
    }
    server.tmux(&["kill-session", "-t", "agent"]);
    assert_code(&watch.end(), 0);
}

#[test]
fn user_rules_replace_built_in_ones() {
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    let rules = data.join("states");
    std::fs::create_dir_all(&rules).unwrap();
    let toml = "agent = \"shell\"\nfallback = true\n[[rule]]\nid = \"ask\"\nstate = \"waiting\"\n\
        where = \"bottom\"\nlines = 3\npattern = '^continue\\?$'\n";
    std::fs::write(rules.join("mine.toml"), toml).unwrap();
    let capture = server.directory().join("capture");
    std::fs::write(&capture, "some text\ncontinue?\n\n").unwrap();
    let states = |args: &[&str]| run(&[&["states"], args].concat(), &data);
    let listed = states(&[]);
    assert_code(&listed, 0);
    let listed = text(&listed.stdout);
    assert!(listed.contains("claude     built in\n"), "{listed}");
    assert!(listed.contains("mine.toml\n"), "{listed}");
    let tried = states(&["--try", capture.to_str().unwrap()]);
    assert_code(&tried, 0);
    assert_eq!(
        text(&tried.stdout),
        "waiting: shell ask (confirmed): continue?\n"
    );
    let nothing = states(&["--try", rules.join("mine.toml").to_str().unwrap(), "--json"]);
    assert_code(&nothing, 1);
    assert_eq!(text(&nothing.stdout), "{}\n");
    assert_eq!(text(&states(&["--show", "shell"]).stdout), toml);
    assert!(text(&states(&["--show", "codex"]).stdout).contains("agent = \"codex\""));
    // One line with the fault, its place and the remedy.
    std::fs::write(rules.join("other.toml"), "agent = \"x y\"").unwrap();
    for wrong in [
        states(&[]),
        states(&["--show", "nobody", "--states", capture.to_str().unwrap()]),
        run(&["watch", "--on-state", "asleep=true"], &data),
        run(&["watch"], &data),
    ] {
        assert_code(&wrong, 2);
        assert_eq!(text(&wrong.stderr).lines().count(), 1, "{wrong:?}");
    }
}

#[test]
fn states_are_not_reported_when_disabled() {
    let server = TmuxServer::new();
    start(&server);
    let data = server.directory().join("data");
    let socket = server.socket();
    let args = [
        "-S",
        socket.to_str().unwrap(),
        "watch",
        "agent",
        "--json",
        "--no-states",
    ];
    let mut watch = Running::start(program(&args, &data));
    watch.wait_for("SessionStarted");
    // A second watch shows when a state would have been reported.
    let mut observed = Observed::start(&server, |watch| watch.states(StateRules::builtin()));
    observed.until("a state", |seen| !states(seen).is_empty());
    server.tmux(&["kill-session", "-t", "agent"]);
    let ended = watch.end();
    assert!(!text(&ended.stdout).contains("AgentState"), "{ended:?}");
    observed.stop();
}

#[test]
fn a_shell_is_working_while_it_runs_a_command() {
    let server = TmuxServer::new();
    let pane = server.new_session(
        "shell",
        60,
        12,
        "PS1='me@box:~$ ' exec bash --norc --noprofile",
    );
    server.wait_for_text(&pane, "$");
    let mut observed = Observed::start(&server, |watch| watch.states(StateRules::builtin()));
    observed.until("a prompt", |seen| states(seen).len() == 1);
    server.tmux(&["send-keys", "-t", &pane, "tail -f /dev/null", "Enter"]);
    observed.until("work", |seen| states(seen).len() == 2);
    server.tmux(&["send-keys", "-t", &pane, "C-c"]);
    observed.until("a prompt again", |seen| states(seen).len() == 3);
    observed.stop();
    let states = states(&observed.seen);
    let found: Vec<&str> = states.iter().map(|(state, _)| *state).collect();
    assert_eq!(found, ["idle", "working", "idle"], "{states:?}");
    assert_eq!(states[1].1, "program: tail");
}
