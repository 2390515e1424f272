//! Notifications of real agents: a question that is answered at once is no message, one that stands is one in each
//! channel, and it is withdrawn after the answer.

use std::fs;

use serde_json::Value;

use super::scenes::AGENTS;
use super::{START, STEP, TYPING, lab, pause};
use crate::cli::text;
use crate::notifications::Stage;
use crate::notifications::stand_in::{Reply, StandIn};
use crate::support::within;

/// What Claude Code and Gemini CLI ask to run.
const COMMAND: &str = "touch made-by-agent.txt && ls";

pub fn play() {
    for name in ["claude", "gemini"] {
        let agent = AGENTS.iter().find(|agent| agent.lab == name).unwrap();
        let hook = StandIn::new(|_| Reply::ok(""));
        let stage = Stage::with_panes(
            &[],
            &format!(
                "[[notify]]\nwhen = [\"waiting\"]\nto = [\"own\", \"hook\", \"here\"]\n\n\
                 [channel.own]\nkind = \"command\"\nrun = \"echo $TD_RESOLVED: $TD_ASKS >> HOME/told\"\n\n\
                 [channel.hook]\nkind = \"webhook\"\nurl = \"{}\"\n\n[channel.here]\nkind = \"tmux\"\nbell = true\n",
                hook.url()
            ),
        );
        let server = &stage.home.server;
        let command = format!("exec {} agent {name}", lab().display());
        let pane = server.new_session("agent", 110, 36, &command);
        let other = server.new_session("other", 110, 36, "exec cat");
        let shows = |text: &str| match server.screen(&pane) {
            screen if screen.contains(text) => Ok(()),
            screen => Err(screen),
        };
        within(START, || shows(agent.ready))
            .unwrap_or_else(|error| panic!("{name} starts: {error}"));
        // A client that nobody touches, and that shows another pane.
        let (outer, client) = stage.attach(&other);
        let options = || {
            let sets = ["-g", "-s", "-gw"].map(|set| server.tmux(&["show-options", set]));
            (sets, server.tmux(&["show-hooks", "-g"]))
        };
        stage.start(&[]);
        let before = options();
        let prompt = || {
            server.tmux(&["send-keys", "-t", &pane, "-l", "SCN:bash do it"]);
            pause(TYPING);
            server.tmux(&["send-keys", "-t", &pane, "Enter"]);
            stage
                .home
                .wait_for_row("agent", |row| row["state"] == "waiting")
        };
        let answer = || {
            pause(TYPING);
            server.tmux(&["send-keys", "-t", &pane, "Enter"]);
            stage.home.wait_for_row("agent", |row| {
                ["done", "idle"].contains(&row["state"].as_str().unwrap())
            });
        };
        prompt();
        answer();
        // It would be due by now.
        pause(8 * TYPING);
        assert_eq!(hook.requests().len(), 0, "{name}: {:?}", hook.requests());

        prompt();
        let told = || fs::read_to_string(stage.home.directory().join("told")).unwrap_or_default();
        let line = format!(": {COMMAND}\n");
        within(STEP, || (told() == line).then_some(()).ok_or_else(told))
            .unwrap_or_else(|told| panic!("{name}: {told:?}"));
        let screen = || outer.screen(&client);
        within(STEP, || {
            screen().contains(COMMAND).then_some(()).ok_or_else(screen)
        })
        .unwrap_or_else(|screen| panic!("{name}: {screen}"));
        let event = |number: usize| -> Value {
            let request = hook.wait_for(number + 1).remove(number);
            serde_json::from_str::<Value>(&request.body).unwrap()["event"].clone()
        };
        assert_eq!(event(0)["asks"], COMMAND, "{name}");
        answer();
        assert_eq!(event(1)["resolved"], true, "{name}");
        within(STEP, || {
            told().contains("1: ").then_some(()).ok_or_else(told)
        })
        .unwrap_or_else(|told| panic!("{name}: {told:?}"));
        assert_eq!(hook.requests().len(), 2, "{name}");
        assert_eq!(options(), before, "{name}");
        let log = text(&stage.run(&["notify", "log"]).stdout);
        assert_eq!(log.matches("  sent ").count(), 3, "{name}: {log}");
        stage.stop();
    }
}
