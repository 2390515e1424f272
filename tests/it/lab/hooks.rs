//! Hooks of `watch` beside real agents: one for each dialogue and turn.

use std::fs;

use rustix::process::Signal;

use super::scenes::{AGENTS, Step};
use super::{START, STEP, TYPING, lab, pause};
use crate::cli::{Running, assert_code, on, program};
use crate::support::{TmuxServer, within};

/// The dialogues of the two typed prompts, in any order.
const ASKED: [&str; 3] = [
    "touch made-by-agent.txt && ls",
    "touch par-a.txt",
    "touch par-b.txt; date > par-c.txt",
];

pub fn play() {
    for name in ["claude", "gemini"] {
        let agent = AGENTS.iter().find(|agent| agent.lab == name).unwrap();
        let server = TmuxServer::new();
        let command = format!("exec {} agent {name}", lab().display());
        let pane = server.new_session("agent", 110, 36, &command);
        let shows = |text: &str| match server.screen(&pane) {
            screen if screen.contains(text) => Ok(()),
            screen => Err(screen),
        };
        within(START, || shows(agent.ready))
            .unwrap_or_else(|error| panic!("{name} starts: {error}"));
        let questions = server.directory().join("asked");
        let turns = server.directory().join("turns");
        let on_state = format!(
            "waiting=printf '%s\\n' \"$TD_ASKS\" >>{}",
            questions.display()
        );
        let on_turn = format!("echo turn >>{}", turns.display());
        let socket = server.socket().display().to_string();
        let more = [
            "watch",
            "--json",
            "--on-state",
            &on_state,
            "--on-turn",
            &on_turn,
        ];
        let mut running = Running::start(program(&on(&socket, &more), server.directory()));
        running.wait_for("AgentState");

        let lines = |path| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut expected = 0;
        for text in ["SCN:bash do it", "SCN:par both"] {
            server.tmux(&["send-keys", "-t", &pane, "-l", text]);
            pause(TYPING);
            server.tmux(&["send-keys", "-t", &pane, "Enter"]);
            let scene = agent
                .scenes
                .iter()
                .find(|scene| scene.text == text)
                .unwrap();
            let dialogues = scene
                .steps
                .iter()
                .filter(|step| matches!(step, Step::Asks(_)));
            for _ in dialogues {
                expected += 1;
                let is_asked = || {
                    (lines(&questions).len() >= expected)
                        .then_some(())
                        .ok_or(())
                };
                within(STEP, is_asked).unwrap_or_else(|()| {
                    panic!(
                        "{name} {text}: {:?}\n{}",
                        lines(&questions),
                        server.screen(&pane)
                    )
                });
                pause(TYPING);
                server.tmux(&["send-keys", "-t", &pane, "Enter"]);
            }
            let ended = if text.contains("bash") { 1 } else { 2 };
            let has_ended = || (lines(&turns).len() >= ended).then_some(()).ok_or(());
            within(STEP, has_ended).unwrap_or_else(|()| {
                panic!(
                    "{name} {text}: {:?}\n{}",
                    lines(&turns),
                    server.screen(&pane)
                )
            });
        }
        // Surplus events arrive soon.
        pause(4 * TYPING);
        let mut seen = lines(&questions);
        assert_eq!(lines(&turns).len(), 2, "{name}");
        seen.sort();
        assert_eq!(seen, ASKED, "{name}");
        running.signal(Signal::INT);
        assert_code(&running.end(), 0);
    }
}
