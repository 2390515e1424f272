//! A real agent asks, and is answered from the page on an emulated phone, where its question and choices are in sight.

use serde_json::json;

use super::scenes::AGENTS;
use super::{START, TYPING, lab, lab_directory, pause};
use crate::observer::Home;
use crate::serve::Served;
use crate::serve::browser::{self, Browser, PHONE};
use crate::support::within;

/// The boxes of the question and of its choices on the page, each as left, top, right and bottom.
const PLACES: &str = "[...document.querySelectorAll('[data-question] .ask, [data-choice]')].map((part) => { \
    const box = part.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })";

pub fn play() {
    if !browser::is_there() {
        return;
    }
    for name in ["claude", "gemini"] {
        let agent = AGENTS.iter().find(|agent| agent.lab == name).unwrap();
        let home = Home::new();
        let server = &home.server;
        let command = format!("exec {} agent {name}", lab().display());
        let pane = server.new_session("agent", 110, 36, &command);
        let shows = |text: &str| match server.screen(&pane) {
            screen if screen.contains(text) => Ok(()),
            screen => Err(screen),
        };
        within(START, || shows(agent.ready))
            .unwrap_or_else(|error| panic!("{name} starts: {error}"));
        home.start();
        let served = Served::start(&home, &["--allow-input"]);
        let mut browser = Browser::start();
        let phone = browser.open(&PHONE, "dark", &served.link);
        let old = browser.open(&PHONE, "light", &served.link);
        server.tmux(&["send-keys", "-t", &pane, "-l", "SCN:bash do it"]);
        pause(TYPING);
        server.tmux(&["send-keys", "-t", &pane, "Enter"]);
        home.wait_for_row("agent", |row| row["state"] == "waiting");
        let usable = "document.querySelector('[data-choice=\"1\"]:not([aria-disabled])')";
        browser.until(&old, usable);
        // It does not hear of the answer.
        let paused = json!({"patterns": [{"urlPattern": "*/api/v1/board*"}]});
        browser.tab_call(&old, "Fetch.enable", paused);
        browser.tab_call(&phone, "Page.bringToFront", json!({}));
        browser.until(&phone, usable);
        let places = browser.eval(&phone, PLACES);
        let places = places.as_array().unwrap();
        assert!(places.len() >= 3, "{name}: {places:?}");
        for place in places {
            let [left, top, right, bottom] = [0, 1, 2, 3].map(|at| place[at].as_f64().unwrap());
            let is_in_sight = left >= 0.0 && top >= 0.0 && right <= 390.0 && bottom <= 844.0;
            assert!(is_in_sight, "{name}: {places:?}");
        }
        browser.tap(&phone, "[data-choice=\"1\"]");
        let ended = |row: &serde_json::Value| {
            ["done", "idle"].contains(&row["state"].as_str().unwrap_or_default())
        };
        home.wait_for_row("agent", ended);
        // What it asked for was done.
        let made = lab_directory().join(format!("work-{name}/made-by-agent.txt"));
        assert!(made.exists(), "{name}: {}", server.screen(&pane));
        let before = server.screen(&pane);
        browser.tap(&old, "[data-choice=\"1\"]");
        browser.until(
            &old,
            "document.body.innerText.toLowerCase().includes('question has changed')",
        );
        assert_eq!(server.screen(&pane), before, "{name}");
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
}
