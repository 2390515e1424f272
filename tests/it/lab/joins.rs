//! Several agents at once, in one directory, below wrappers, and started before the observer: each is
//! joined to its own conversation.

use std::collections::BTreeMap;

use td_observe::TdEvent;
use td_observe::agent::StateRules;

use super::scenes::ANSWER;
use super::{START, STEP, TYPING, lab, pause};
use crate::observed::Observed;
use crate::stream::drain;
use crate::support::{TmuxServer, within};

/// An agent in a pane: its session, its command, and the text that shows that it is ready.
struct Pane {
    name: &'static str,
    command: String,
    ready: &'static str,
    /// True if the agent starts before the observer.
    is_early: bool,
}

pub fn play() {
    let lab = lab().display().to_string();
    let pane = |name, command: String, ready, is_early| Pane {
        name,
        command,
        ready,
        is_early,
    };
    let claude = format!("exec {lab} agent claude");
    let codex = format!("exec {lab} agent codex");
    // A shell with further commands stays above the agent.
    let below_bash = format!("bash -c '{lab} agent gemini; true'");
    // The package runner starts the agent that the lab would exec.
    let below_npx = format!(
        "bash -c 'exec() {{ command npx --no-install \"$@\"; }}; set -- agent qwen; . {lab}' {lab}"
    );
    // Its own terminal, as under ssh.
    let below_script = format!("script -qc '{lab} agent claude-inline' /dev/null");
    let panes = [
        pane(
            "early",
            format!("exec {lab} agent qwen"),
            "Type your message",
            true,
        ),
        pane("first", claude.clone(), "for shortcuts", true),
        pane("second", claude, "for shortcuts", false),
        pane("one", codex.clone(), "Ask Codex", false),
        pane("two", codex.clone(), "Ask Codex", false),
        pane("three", codex, "Ask Codex", false),
        pane("bash", below_bash, "Type your message", false),
        pane("npx", below_npx, "Type your message", false),
        pane("script", below_script, "for shortcuts", false),
    ];
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    let mut ids = BTreeMap::new();
    let mut start = |wanted: &Pane| {
        let id = server.new_session(wanted.name, 110, 36, &wanted.command);
        within(START, || match server.screen(&id) {
            screen if screen.contains(wanted.ready) => Ok(()),
            screen => Err(screen),
        })
        .unwrap_or_else(|screen| panic!("{} starts: {screen}", wanted.name));
        ids.insert(wanted.name, id);
    };
    panes
        .iter()
        .filter(|pane| pane.is_early)
        .for_each(&mut start);
    let mut observed = Observed::start(&server, |watch| {
        watch.stream(drain()).states(StateRules::builtin())
    });
    observed.until_started(3);
    panes
        .iter()
        .filter(|pane| !pane.is_early)
        .for_each(&mut start);
    pause(6 * TYPING);

    // All at once, so that files are created side by side.
    for turn in ["SCN:text", "SCN:short"] {
        for (name, id) in &ids {
            server.tmux(&["send-keys", "-t", id, "-l", &format!("{turn} {name}")]);
        }
        pause(2 * TYPING);
        for id in ids.values() {
            server.tmux(&["send-keys", "-t", id, "Enter"]);
        }
        let done = within(STEP, || {
            observed.take_ready();
            let lacks: Vec<&str> = ids
                .iter()
                .filter(|(name, id)| !has_turn(&observed, id, &format!("{turn} {name}")))
                .map(|(name, _)| *name)
                .collect();
            if lacks.is_empty() { Ok(()) } else { Err(lacks) }
        });
        if let Err(lacks) = done {
            let screens = lacks.iter().map(|name| server.screen(&ids[name]));
            panic!(
                "{turn}: not joined: {lacks:?}\n{}\n{:#?}",
                screens.collect::<Vec<String>>().join("\n"),
                conversations(&observed)
            );
        }
    }
    observed.stop();
    let conversations = conversations(&observed);
    for (name, id) in &ids {
        let messages: Vec<&str> = conversations[id].iter().map(String::as_str).collect();
        let prompts = [format!("> SCN:text {name}"), format!("> SCN:short {name}")];
        let expected = [
            prompts[0].as_str(),
            ANSWER,
            prompts[1].as_str(),
            "Done, that was short.",
        ];
        assert_eq!(messages, expected, "{name}");
    }
}

/// Returns true if this prompt of a pane and an answer after it were reported.
fn has_turn(observed: &Observed, pane: &str, prompt: &str) -> bool {
    let mut events = observed.seen.iter().map(|envelope| &envelope.event);
    events.any(|event| {
        matches!(event, TdEvent::PromptSent { pane: Some(of), prompt_summary, .. }
            if of.as_str() == pane && prompt_summary == prompt)
    }) && events.any(|event| {
        matches!(event, TdEvent::TurnCompleted { pane: Some(of), .. } if of.as_str() == pane)
    })
}

/// Returns the conversation of each pane: prompts, and the beginnings of answers.
fn conversations(observed: &Observed) -> BTreeMap<String, Vec<String>> {
    let mut messages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for envelope in &observed.seen {
        let (pane, text) = match &envelope.event {
            TdEvent::PromptSent {
                pane: Some(pane),
                prompt_summary,
                ..
            } => (pane, format!("> {prompt_summary}")),
            TdEvent::TokenReceived {
                pane: Some(pane),
                token,
                ..
            } => {
                let begin = token.split(" in this directory").next().unwrap_or_default();
                (pane, begin.to_owned())
            }
            _ => continue,
        };
        messages
            .entry(pane.as_str().to_owned())
            .or_default()
            .push(text);
    }
    messages
}
