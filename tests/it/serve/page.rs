//! The page in a real Chromium: the board, output, search, history, and answers from a phone.

use rustix::process::Signal;
use serde_json::json;

use super::Served;
use super::browser::{self, Browser, DESKTOP, PHONE};
use super::gate::ASKS;
use crate::cli::assert_code;
use crate::observer::Home;

/// Prints each line that it reads once.
const PRINTS: &str = "stty -echo; echo ready; exec cat";

fn types(home: &Home, session: &str, line: &str) {
    home.server.tmux(&["send-keys", "-t", session, "-l", line]);
    home.server.tmux(&["send-keys", "-t", session, "Enter"]);
}

#[test]
fn a_question_is_answered_from_a_phone_and_an_old_one_is_not() {
    if !browser::is_there() {
        return;
    }
    let home = Home::new();
    home.server.new_session("build", 80, 24, PRINTS);
    let pane = home.server.new_session("asks", 80, 24, ASKS);
    home.start();
    let served = Served::start(&home, &["--allow-input"]);
    let mut browser = Browser::start();
    let phone = browser.open(&PHONE, "dark", &served.link);
    browser.until(&phone, "document.querySelector('[data-choice=\"2\"]')");
    // The token is no longer in the address.
    assert!(
        !browser
            .eval(&phone, "location.href")
            .as_str()
            .unwrap()
            .contains(&served.token)
    );
    let first = browser.eval(
        &phone,
        "document.querySelector('#board [data-row]').textContent",
    );
    assert!(first.as_str().unwrap().contains("asks"), "{first}");
    let places = browser.eval(
        &phone,
        "[...document.querySelectorAll('.question pre, [data-choice]')].map((part) => { const box = part.getBoundingClientRect(); \
         return [box.left, box.top, box.right, box.bottom, box.height]; })",
    );
    let places = places.as_array().unwrap().clone();
    assert_eq!(places.len(), 3, "{places:?}");
    for place in &places {
        let [left, top, right, bottom, _] = [0, 1, 2, 3, 4].map(|at| place[at].as_f64().unwrap());
        assert!(
            left >= 0.0 && top >= 0.0 && right <= 390.0 && bottom <= 844.0,
            "{places:?}"
        );
    }
    for choice in &places[1..] {
        assert!(choice[4].as_f64().unwrap() >= 44.0, "{places:?}");
    }

    // A second browser does not hear of the answer.
    let old = browser.open(&PHONE, "light", &served.link);
    browser.until(&old, "document.querySelector('[data-choice=\"2\"]')");
    let paused = json!({"patterns": [{"urlPattern": "*/api/v1/board*"}]});
    browser.tab_call(&old, "Fetch.enable", paused);
    browser.tap(&phone, "[data-choice=\"1\"]");
    home.server.wait_for_text(&pane, "\n1");
    types(&home, "build", "x");
    let ask = "printf '\\033[2J\\033[HDo you want to create it?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n'";
    home.server.tmux(&[
        "respawn-pane",
        "-k",
        "-t",
        &pane,
        &format!("{ask}; exec sleep 1000"),
    ]);
    browser.until(
        &phone,
        "document.querySelector('.question')?.textContent.includes('create it')",
    );
    browser.tap(&old, "[data-choice=\"1\"]");
    browser.until(
        &old,
        "document.body.innerText.toLowerCase().includes('question has changed')",
    );
    assert!(
        !home.server.screen(&pane).contains("\n1"),
        "{}",
        home.server.screen(&pane)
    );
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    drop(served.end(Signal::INT));

    // Without the flag there is nothing to press.
    let served = Served::start(&home, &[]);
    let reader = browser.open(&PHONE, "dark", &served.link);
    browser.until(
        &reader,
        "document.querySelector('[data-hint=\"allow-input\"]')",
    );
    let buttons = "document.querySelectorAll('[data-answer], [data-choice], [data-prompt]').length";
    assert_eq!(browser.eval(&reader, buttons), 0);
}

#[test]
fn a_link_opens_again_after_a_restart_and_a_page_without_one_says_what_to_do() {
    if !browser::is_there() {
        return;
    }
    let home = Home::new();
    home.server.new_session("build", 80, 24, PRINTS);
    let served = Served::start(&home, &[]);
    let mut browser = Browser::start();
    let tab = browser.open(&DESKTOP, "light", &served.link);
    browser.until(&tab, "document.querySelector('#board [data-row]')");
    let (address, link) = (served.address.clone(), served.link.clone());
    assert_code(&served.end(Signal::INT), 0);
    browser.until(&tab, "!document.querySelector('#notice').hidden");
    let served = Served::start_at(&home, &address, &[]);
    assert_eq!(served.link, link);
    // The open page goes on, and the link opens another one.
    browser.until(&tab, "document.querySelector('#notice').hidden");
    let again = browser.open(&DESKTOP, "dark", &link);
    browser.until(&again, "document.querySelector('#board [data-row]')");

    let bare = format!("http://{address}/");
    let stranger = browser.open(&DESKTOP, "dark", &bare);
    browser.until(&stranger, "!document.querySelector('#token').hidden");
    browser.eval(
        &stranger,
        &format!("document.querySelector('#token-field').value = {link:?}"),
    );
    browser.eval(
        &stranger,
        "document.querySelector('#token-form').requestSubmit()",
    );
    browser.until(&stranger, "document.querySelector('#board [data-row]')");
}
