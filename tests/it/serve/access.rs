//! Accessibility: axe-core finds no serious fault on any view, and every action works by the keyboard alone.

use std::fs;

use serde_json::{Value, json};

use super::Served;
use super::browser::{self, Browser, DESKTOP, PHONE, Tab};
use super::gate::ASKS;
use super::output::LINES;
use crate::observer::Home;
use crate::support::peer;

/// Returns the serious faults of a page, in words.
#[track_caller]
fn faults(browser: &mut Browser, tab: &Tab) -> Vec<String> {
    let found = browser.eval(
        tab,
        "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations \
         .filter((fault) => ['serious', 'critical'].includes(fault.impact)) \
         .map((fault) => `${fault.id}: ${fault.help}: ${fault.nodes.map((node) => node.html).join(' ').slice(0, 500)}`))",
    );
    let found = found.as_array().unwrap().iter();
    found
        .map(|fault| fault.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn axe_finds_no_serious_fault_on_any_view() {
    let Some(axe) = peer("node_modules/axe-core/axe.min.js").filter(|_| browser::is_there()) else {
        return;
    };
    let axe = fs::read_to_string(axe).unwrap();
    let home = Home::new();
    home.server.new_session("asks", 80, 24, ASKS);
    home.server.new_session(
        "build",
        80,
        24,
        "printf '\\033[1;31merror\\033[0m: x\\n'; exec cat",
    );
    home.start();
    let served = Served::start(&home, &["--allow-input"]);
    let mut browser = Browser::start();
    for size in [&DESKTOP, &PHONE] {
        for theme in ["dark", "light"] {
            let tab = browser.open(size, theme, &served.link);
            // The page's policy forbids scripts of others, but not those of the debugger.
            browser.tab_call(&tab, "Page.setBypassCSP", json!({"enabled": true}));
            browser.until(&tab, "document.querySelector('[data-choice]')");
            browser.eval(&tab, &format!("{axe}; true"));
            let id = browser.eval(
                &tab,
                "document.querySelector('#board [data-row]:not([data-state=waiting])').dataset.row",
            );
            let id = id.as_str().unwrap().to_owned();
            let row = |view: &str| format!("#/row/${{encodeURIComponent({id:?})}}/{view}");
            let places = [
                (
                    "#/".to_owned(),
                    "document.querySelector('#board [data-row]')",
                ),
                (
                    row("output"),
                    "document.querySelector('#row-name').textContent === 'build'",
                ),
                (row("logs"), "document.body.dataset.place === 'row'"),
                (
                    row("events"),
                    "document.querySelector('#lines [data-line]')",
                ),
                (
                    row("screen"),
                    "document.querySelector('#screen [data-screen-row]')",
                ),
                (
                    "#/timeline".to_owned(),
                    "document.querySelector('#bands rect')",
                ),
                (
                    "#/history".to_owned(),
                    "document.body.dataset.place === 'history'",
                ),
            ];
            for (place, is_shown) in places {
                browser.eval(&tab, &format!("location.hash = `{place}`"));
                browser.until(&tab, is_shown);
                let found = faults(&mut browser, &tab);
                assert!(found.is_empty(), "{place} {theme}: {found:#?}");
            }
            browser.eval(&tab, "document.querySelector('#help-open').click()");
            browser.until(&tab, "document.querySelector('#help').open");
            let found = faults(&mut browser, &tab);
            assert!(found.is_empty(), "help {theme}: {found:#?}");
            browser.eval(
                &tab,
                "sessionStorage.clear(); location.hash = ''; location.reload()",
            );
            browser.until(
                &tab,
                "document.querySelector('#token') && !document.querySelector('#token').hidden",
            );
            browser.eval(&tab, &format!("{axe}; true"));
            let found = faults(&mut browser, &tab);
            assert!(found.is_empty(), "token {theme}: {found:#?}");
        }
    }
}

#[test]
fn every_action_works_by_the_keyboard_alone() {
    if !browser::is_there() {
        return;
    }
    let home = Home::new();
    let asks = home.server.new_session("asks", 80, 24, ASKS);
    home.server
        .new_session("build", 80, 24, "stty -echo; echo ready; exec cat");
    home.start();
    let served = Served::start(&home, &["--allow-input"]);
    let mut browser = Browser::start();
    let tab = browser.open(&DESKTOP, "dark", &served.link);
    let state = |text: &str| {
        format!("document.activeElement.closest('[data-row]')?.dataset.state === {text:?}")
    };
    browser.until(
        &tab,
        "document.querySelectorAll('#board [data-row]').length === 2",
    );
    browser.until(&tab, "document.querySelector('[data-choice]')");
    home.server
        .tmux(&["send-keys", "-t", "build", "one needle", "Enter"]);

    // To the next row that needs the user, and its answer.
    browser.press(&tab, "]");
    browser.until(
        &tab,
        "document.querySelector('#row-name').textContent === 'asks'",
    );
    browser.until(
        &tab,
        "document.querySelector('[data-choice]:not([aria-disabled])')",
    );
    browser.press(&tab, "r");
    browser.until(
        &tab,
        "document.activeElement.matches('[data-choice], [data-answer-text]')",
    );
    browser.press(&tab, "Escape");
    // Down to the other row, which Enter opens.
    browser.press(&tab, "h");
    for _ in 0..4 {
        if browser.eval(&tab, &state("running")) == Value::Bool(true) {
            break;
        }
        browser.press(&tab, "j");
    }
    browser.until(&tab, &state("running"));
    browser.press(&tab, "Enter");
    browser.until(
        &tab,
        "document.querySelector('#row-name').textContent === 'build'",
    );
    browser.until(&tab, &format!("{LINES}.includes('one needle')"));
    for (key, is_shown) in [
        (
            "l",
            "document.querySelector('#row-tabs [data-view=logs][aria-current=page]')",
        ),
        (
            "s",
            "document.querySelector('#row-tabs [data-view=screen][aria-current=page]')",
        ),
        (
            "e",
            "document.querySelector('#row-tabs [data-view=events][aria-current=page]')",
        ),
        (
            "o",
            "document.querySelector('#row-tabs [data-view=output][aria-current=page]')",
        ),
        ("/", "document.activeElement.id === 'search'"),
    ] {
        browser.press(&tab, key);
        browser.until(&tab, is_shown);
    }
    for key in ["n", "e", "e", "d", "l", "e", "Enter"] {
        browser.press(&tab, key);
    }
    browser.until(
        &tab,
        "document.querySelector('#search-count').textContent === '1 of 1'",
    );
    browser.press(&tab, "Escape");
    browser.until(&tab, "document.querySelector('#search-form').hidden");
    browser.press(&tab, "p");
    browser.until(&tab, "/output\\/\\d+\\.\\d+$/.test(location.hash)");
    browser.press(&tab, "w");
    browser.until(
        &tab,
        "document.querySelector('#lines').dataset.wrap === 'off'",
    );
    browser.press(&tab, "x");
    browser.until(&tab, "document.querySelector('[data-dismiss=back]')");
    browser.press(&tab, "X");
    browser.until(&tab, "!document.querySelector('[data-dismiss=back]')");
    browser.press(&tab, "t");
    browser.until(&tab, "document.querySelector('#bands rect')");
    browser.press(&tab, "H");
    browser.until(&tab, "document.body.dataset.place === 'history'");
    browser.press(&tab, "?");
    browser.until(&tab, "document.querySelector('#help').open && document.querySelector('#help').textContent.includes('Ctrl')");
    browser.press(&tab, "Escape");
    browser.until(&tab, "!document.querySelector('#help').open");

    // An answer by its key.
    browser.press(&tab, "]");
    browser.until(
        &tab,
        "document.querySelector('#row-name').textContent === 'asks'",
    );
    browser.until(
        &tab,
        "document.querySelector('[data-choice=\"1\"]:not([aria-disabled])')",
    );
    browser.press(&tab, "r");
    browser.until(&tab, "document.activeElement.dataset.choice === '1'");
    browser.press(&tab, "Enter");
    home.server.wait_for_text(&asks, "\n1");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}
