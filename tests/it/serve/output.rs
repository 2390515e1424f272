//! Output on the page: each line once, live, after cuts and in floods; search, permalinks, timeline and history.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::Served;
use super::browser::{self, Browser, DESKTOP, PHONE, Tab};
use crate::cli::assert_code;
use crate::observer::Home;
use crate::support::{CEILING, Dice, wait_for};

/// A pane that shows what is written to its terminal.
const SHOWS: &str = "stty -echo; echo ready; exec sleep 1000";

/// The texts of the lines that the page shows.
pub const LINES: &str =
    "[...document.querySelectorAll('#lines [data-line] .text')].map((line) => line.textContent)";

/// A row in a browser.
struct Shown {
    home: Home,
    served: Served,
    browser: Browser,
    tab: Tab,
    terminal: File,
}

impl Shown {
    /// Opens the output of a pane on the page.
    #[track_caller]
    fn open() -> Option<Self> {
        if !browser::is_there() {
            return None;
        }
        let home = Home::new();
        let pane = home.server.new_session("build", 80, 24, SHOWS);
        home.server.wait_for_text(&pane, "ready");
        let terminal = home.server.terminal(&pane);
        home.start();
        let served = Served::start(&home, &[]);
        let mut browser = Browser::start();
        let tab = browser.open(&DESKTOP, "dark", &served.link);
        let mut shown = Self {
            home,
            served,
            browser,
            tab,
            terminal,
        };
        shown.print("first");
        shown.open_row("build");
        shown.until_shown("first");
        Some(shown)
    }

    fn print(&mut self, line: &str) {
        self.terminal
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
    }

    #[track_caller]
    fn open_row(&mut self, name: &str) {
        let link = format!(
            "[...document.querySelectorAll('#board [data-row] .row-link')].find((link) => link.querySelector('.name').textContent === {name:?})"
        );
        self.browser.until(&self.tab, &link);
        self.browser.eval(&self.tab, &format!("{link}.click()"));
        let is_open = format!("document.querySelector('#row-name').textContent === {name:?}");
        self.browser.until(&self.tab, &is_open);
    }

    #[track_caller]
    fn until_shown(&mut self, text: &str) {
        self.browser
            .until(&self.tab, &format!("{LINES}.includes({text:?})"));
    }

    #[track_caller]
    fn lines(&mut self) -> Vec<String> {
        let lines = self.browser.eval(&self.tab, LINES);
        lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap().to_owned())
            .collect()
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
        * 1000.0
}

#[test]
fn a_printed_line_appears_at_once() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    // The page notes when it shows a line.
    shown.browser.eval(
        &shown.tab,
        "window.seen = {}; new MutationObserver((records) => { for (const record of records) for (const node of record.addedNodes) { \
         const text = node.querySelector?.('.text')?.textContent; \
         if (text) window.seen[text] = performance.timeOrigin + performance.now(); } }) \
         .observe(document.querySelector('#lines'), { childList: true }); true",
    );
    let mut printed = HashMap::new();
    for number in 0..200 {
        let line = format!("timed {number}");
        printed.insert(line.clone(), now());
        shown.print(&line);
        std::thread::park_timeout(Duration::from_millis(15));
    }
    shown.until_shown("timed 199");
    let seen = shown.browser.eval(&shown.tab, "window.seen");
    let mut late: Vec<f64> = printed
        .iter()
        .map(|(line, at)| {
            seen[line]
                .as_f64()
                .unwrap_or_else(|| panic!("{line}: {seen}"))
                - at
        })
        .collect();
    late.sort_by(f64::total_cmp);
    // The ceiling allows for a busy machine; the measured times are printed.
    eprintln!(
        "a line is on the page after p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms",
        late[100], late[198], late[199]
    );
    assert!(late[198] < 2_000.0, "{late:?}");
}

/// Passes connections to a server, and cuts them.
struct Cutter {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    is_over: Arc<AtomicBool>,
}

impl Cutter {
    fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_over) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(AtomicBool::new(false)),
        );
        let (all, ended, to) = (Arc::clone(&open), Arc::clone(&is_over), to.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&to)) else {
                    continue;
                };
                all.lock()
                    .unwrap()
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server, client),
                ] {
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16 * 1024];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self {
            port,
            open,
            is_over,
        }
    }

    /// Cuts all connections.
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

#[test]
fn with_fifty_cuts_each_line_appears_once() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    let cutter = Cutter::start(&shown.served.address);
    let place = shown.browser.eval(&shown.tab, "location.hash");
    let link = format!(
        "http://127.0.0.1:{}/#token={}",
        cutter.port, shown.served.token
    );
    shown.tab = shown.browser.open(&DESKTOP, "dark", &link);
    shown.open_row("build");
    assert_eq!(shown.browser.eval(&shown.tab, "location.hash"), place);
    shown.until_shown("first");
    let mut dice = Dice(43);
    for cut in 0..50 {
        for number in 0..6 {
            shown.print(&format!("line {cut}.{number}"));
        }
        std::thread::park_timeout(Duration::from_millis(dice.roll(60)));
        cutter.cut();
        shown.print(&format!("line {cut}.6"));
        std::thread::park_timeout(Duration::from_millis(dice.roll(120)));
    }
    shown.print("last");
    shown.until_shown("last");
    let all: Vec<String> = (0..50)
        .flat_map(|cut| (0..7).map(move |number| format!("line {cut}.{number}")))
        .collect();
    let lines = shown.lines();
    let between: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("line "))
        .collect();
    assert_eq!(between, all.iter().collect::<Vec<_>>());
    shown
        .browser
        .until(&shown.tab, "document.querySelector('#notice').hidden");
}

#[test]
fn a_flood_leaves_the_page_responsive_and_small() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    let seconds: u64 = std::env::var("TD_FLOOD_SECONDS").map_or(5, |text| text.parse().unwrap());
    shown.browser.eval(
        &shown.tab,
        "window.frames_ = []; let last = performance.now(); const step = (now) => { window.frames_.push(now - last); last = now; \
         requestAnimationFrame(step); }; requestAnimationFrame(step); true",
    );
    let begun = std::time::Instant::now();
    let mut printed = 0_u64;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let due = begun.elapsed().as_millis() as u64 * 10;
        let lines: String = (printed..due)
            .map(|number| format!("flood {number} of many lines\r\n"))
            .collect();
        shown.terminal.write_all(lines.as_bytes()).unwrap();
        printed = due.max(printed);
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let frames = shown.browser.eval(&shown.tab, "window.frames_");
    let mut frames: Vec<f64> = frames
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame.as_f64().unwrap())
        .collect();
    frames.sort_by(f64::total_cmp);
    let p95 = frames[frames.len() * 95 / 100];
    shown.print("after the flood");
    shown.until_shown("after the flood");
    let elements = shown
        .browser
        .eval(&shown.tab, "document.querySelectorAll('#lines > *').length");
    let heap = shown
        .browser
        .eval(&shown.tab, "performance.memory.usedJSHeapSize");
    // The ceilings allow for a busy machine; the measured values are printed.
    eprintln!(
        "{printed} lines in {seconds} s: {} frames, p95 {p95:.1} ms, {elements} elements, heap {heap}",
        frames.len()
    );
    assert!(p95 < 1_000.0, "{p95}");
    assert!(elements.as_u64().unwrap() <= 2_100, "{elements}");
    assert!(heap.as_f64().unwrap() < 100e6, "{heap}");
}

#[test]
fn search_permalinks_timeline_and_history_lead_to_lines() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    for number in 0..3_000 {
        let word = if number % 1_000 == 7 { "needle" } else { "hay" };
        shown.print(&format!("{word} {number}"));
    }
    shown.until_shown("hay 2999");
    let (browser, tab) = (&mut shown.browser, &shown.tab);
    browser.press(tab, "/");
    browser.until(tab, "document.activeElement.id === 'search'");
    for key in ["N", "e", "e", "d", "l", "e"] {
        browser.press(tab, &key.to_lowercase());
    }
    browser.press(tab, "Enter");
    browser.until(
        tab,
        "document.querySelector('#search-count').textContent.includes('of 3')",
    );
    browser.press(tab, "Enter");
    browser.until(tab, &format!("{LINES}.includes('needle 1007')"));
    browser.press(tab, "Escape");
    // A line's own link shows it again, also after newer lines.
    let target = "[...document.querySelectorAll('#lines [data-line]')].find((line) => line.querySelector('.text').textContent === 'needle 1007')";
    let link = browser.eval(
        tab,
        &format!("{target}.querySelector('.time').getAttribute('href')"),
    );
    let link = link.as_str().unwrap().to_owned();
    let base = format!("http://{}/", shown.served.address);
    let other = browser.open(&PHONE, "light", &format!("{base}{link}"));
    browser.until(&other, "!document.querySelector('#token').hidden");
    browser.eval(
        &other,
        &format!(
            "document.querySelector('#token-field').value = {:?}",
            shown.served.token
        ),
    );
    browser.eval(
        &other,
        "document.querySelector('#token-form').requestSubmit()",
    );
    browser.until(
        &other,
        "document.querySelector('.line.target .text').textContent === 'needle 1007'",
    );

    // States over time, and the runs that have ended.
    browser.press(&other, "t");
    browser.until(&other, "document.querySelector('#bands rect[data-band]')");
    assert_code(&shown.home.run(&["stop"]), 0);
    shown
        .home
        .server
        .tmux(&["new-session", "-d", "-s", "other", "exec cat"]);
    shown.home.server.tmux(&["kill-session", "-t", "build"]);
    shown.home.start();
    let row = "document.querySelector('#history-rows [data-row] a')";
    wait_for("the history", CEILING, || {
        browser.eval(&other, "location.hash = '#/'; location.hash = '#/history'");
        let has = browser.eval(&other, &format!("Boolean({row})"));
        if has == Value::Bool(true) {
            Ok(())
        } else {
            Err(has)
        }
    });
    browser.eval(&other, &format!("{row}.click()"));
    browser.until(&other, &format!("{LINES}.includes('hay 2999')"));
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn hostile_text_is_text() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    let hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>&lt;b&gt;";
    shown.print(hostile);
    shown.print("a\u{202e}b\u{7}c");
    shown.print("\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\");
    shown.print(&format!("\x1b]2;<b>{}\x1b\\title", "t".repeat(100_000)));
    shown.until_shown(hostile);
    shown.until_shown("title");
    let name = "<b>x</b>";
    shown
        .home
        .server
        .tmux(&["rename-window", "-t", "build", name]);
    shown
        .home
        .server
        .tmux(&["new-session", "-d", "-s", name, "exec cat"]);
    shown.browser.until(
        &shown.tab,
        &format!("[...document.querySelectorAll('#board .name')].some((shown) => shown.textContent.includes({name:?}))"),
    );
    let lines = shown.lines();
    let bidi = lines.iter().find(|line| line.starts_with('a')).unwrap();
    assert!(
        !bidi.contains('\u{202e}') && !bidi.contains('\u{7}'),
        "{bidi:?}"
    );
    for wrong in [
        "#lines img",
        "#lines script",
        "#board b",
        "#lines a[href^=\"javascript\"]",
    ] {
        let count = format!("document.querySelectorAll({wrong:?}).length");
        assert_eq!(shown.browser.eval(&shown.tab, &count), 0, "{wrong}");
    }
    assert!(
        !shown
            .browser
            .eval(&shown.tab, "document.title")
            .as_str()
            .unwrap()
            .contains("owned")
    );
    let complaints = shown.browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn every_line_of_a_long_history_is_reached_by_scrolling_and_a_begun_one_is_shown() {
    let Some(mut shown) = Shown::open() else {
        return;
    };
    let all: String = (0..12_000)
        .map(|number| format!("line {number}\r\n"))
        .collect();
    shown.terminal.write_all(all.as_bytes()).unwrap();
    shown.until_shown("line 11999");
    // A line that has not ended yet, such as a question of a program.
    shown.terminal.write_all(b"Delete all? [y/N] ").unwrap();
    let open = "document.querySelector('.line.open')?.textContent.includes('Delete all?')";
    shown.browser.until(&shown.tab, open);
    // The page notes each line that it ever shows.
    shown.browser.eval(
        &shown.tab,
        "window.all = new Set(); const note = () => { for (const line of document.querySelectorAll('#lines [data-line] .text')) window.all.add(line.textContent); }; \
         new MutationObserver(note).observe(document.querySelector('#lines'), { childList: true }); note(); true",
    );
    let is_first = format!("{LINES}.includes('line 0')");
    let up = "document.querySelector('#lines').scrollTop = 0; document.querySelector('#lines').dispatchEvent(new Event('scroll')); true";
    for _ in 0..400 {
        if shown.browser.eval(&shown.tab, &is_first) == Value::Bool(true) {
            break;
        }
        shown.browser.eval(&shown.tab, up);
        std::thread::park_timeout(Duration::from_millis(40));
    }
    let missing =
        "[...Array(12000).keys()].filter((number) => !window.all.has(`line ${number}`)).length";
    assert_eq!(shown.browser.eval(&shown.tab, missing), 0);
    shown.browser.eval(&shown.tab, "window.all.clear(); true");
    let is_last = format!("{LINES}.includes('line 11999')");
    let down =
        "const list = document.querySelector('#lines'); list.scrollTop = list.scrollHeight; true";
    for _ in 0..400 {
        if shown.browser.eval(&shown.tab, &is_last) == Value::Bool(true) {
            break;
        }
        shown.browser.eval(
            &shown.tab,
            &format!("(() => {{ {} }})()", down.replace("true", "return true;")),
        );
        std::thread::park_timeout(Duration::from_millis(40));
    }
    assert_eq!(
        shown.browser.eval(
            &shown.tab,
            &missing.replace(
                "[...Array(12000).keys()]",
                "[...Array(10000).keys()].map((at) => at + 2000)"
            )
        ),
        0
    );
}
