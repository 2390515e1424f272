//! Tests of the page's data: a data directory with logs, an observer that reads them, and clients of the paths.

mod house;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::event::{Link, Links, Style, TdEvent};
use crate::face::samples;
use crate::face::view_lines::LineView;
use house::{House, Page, expected};

const PANE: &str = "x:%1";
const COMMAND: &str = "make@17";

/// An event of the row with a pane, or of another one in its run.
fn pane_event(number: i64, kind: u8) -> TdEvent {
    let styles = vec![Style::new(0, 0, 1, "1;31")];
    match kind % 10 {
        0..=3 => samples::update_of("%1", number, &format!("line {number}\n"), styles),
        4 => samples::update(number, &format!("{number} a\n{number} b\n")),
        5 | 6 => samples::revised(number / 2, &format!("new {number}")),
        7 => samples::update_of("%2", number, "other\n", Vec::new()),
        8 => samples::gap(number, Some(3), "lagged"),
        _ => samples::agent_state("working", "title"),
    }
}

/// An event of a command, whose lines may begin and end in different events.
fn command_event(number: i64, kind: u8) -> TdEvent {
    match kind % 8 {
        0 => samples::output("stdout", &format!("begun {number} ")),
        1 => samples::output("stdout", &format!("{number}\nand ")),
        2 => samples::output("stderr", &format!("\x1b[31mred {number}")),
        3 => samples::output("stderr", "\n"),
        4 => samples::token(&format!("word{number} ")),
        5 => samples::check(&format!("check {number}"), number % 2 == 0),
        6 => samples::output("stdout", "10%\r"),
        _ => samples::checked(0, 1),
    }
}

fn events_of(kinds: &[u8], is_pane: bool) -> Vec<TdEvent> {
    // The row is on the board from here on.
    let first = if is_pane {
        let line = samples::update_of("%1", 0, "begins\n", Vec::new());
        vec![samples::session_started("s", &["%1", "%2"]), line]
    } else {
        vec![samples::started("make")]
    };
    let event = if is_pane { pane_event } else { command_event };
    let later = (1_i64..).zip(kinds);
    let later = later.map(|(number, kind)| event(number, *kind));
    first.into_iter().chain(later).collect()
}

fn row_of(is_pane: bool) -> &'static str {
    if is_pane { PANE } else { COMMAND }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Pages of any view, turned from the end or from the beginning, have each line of the terminal UI once.
    #[test]
    fn pages_have_each_line_once(kinds in prop::collection::vec(0_u8..10, 0..120), is_pane: bool, at in 1_u64..120) {
        let mut house = House::new();
        house.log(events_of(&kinds, is_pane));
        let row = row_of(is_pane);
        for (view, name) in [(LineView::Output, "output"), (LineView::Logs, "logs"), (LineView::Events, "events")] {
            let expected = expected(&house, row, view);
            let turned = |first: &str, is_back: bool| {
                let mut page = Page::default();
                let mut place = first.to_owned();
                for turn in 0.. {
                    assert!(turn < 200, "no end: {place}");
                    let json = house.json(&format!("/page/lines?row={row}&view={name}{place}"));
                    page.take(&json);
                    let (edge, next) = if is_back { ("is_first", "first") } else { ("is_last", "last") };
                    if json[edge] == true {
                        break;
                    }
                    place = format!("&{}={}", if is_back { "before" } else { "after" }, json[next]);
                }
                page
            };
            prop_assert_eq!(turned("", true).lines(), expected.clone());
            prop_assert_eq!(turned("&after=0", false).lines(), expected.clone());
            let mut around = turned(&format!("&at={at}"), true);
            let last = house.json(&format!("/page/lines?row={row}&view={name}&at={at}"))["last"].as_u64();
            if let Some(last) = last {
                let json = house.json(&format!("/page/lines?row={row}&view={name}&after={last}"));
                around.take(&json);
                prop_assert_eq!(json["is_last"].clone(), true);
            }
            prop_assert_eq!(around.lines(), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// A page, and then live lines over fifty connections that break anywhere, are the lines of the terminal UI.
    #[test]
    fn live_lines_follow_a_page_over_fifty_cuts(
        kinds in prop::collection::vec(0_u8..10, 60..120), is_pane: bool, begin in 0_usize..60,
        cuts in prop::collection::vec(1_usize..600, 50),
    ) {
        let mut house = House::new();
        let mut events = events_of(&kinds, is_pane);
        // The last line shows that everything has arrived.
        events.push(if is_pane { samples::update(9_000, "the end\n") } else { samples::output("stdout", "\nthe end\n") });
        let row = row_of(is_pane);
        let live = events.split_off(begin + 2);
        house.log(events);
        let mut page = Page::default();
        let json = house.json(&format!("/page/lines?row={row}&view=output"));
        page.take(&json);
        page.last = json["last"].as_u64().unwrap();
        let mut live = live.into_iter();
        for (cut, bytes) in cuts.into_iter().enumerate() {
            house.log(live.by_ref().take(2));
            // This line arrives in any case, if the connection does not break before.
            let mark = format!("mark {cut}.");
            house.log([if is_pane {
                samples::update(2_000 + cut as i64, &format!("{mark}\n"))
            } else {
                samples::output("stdout", &format!("\n{mark}\n"))
            }]);
            let path = format!("/page/live?row={row}&view=output&after={}", page.last);
            house.live(&path, &mut page, |read, page| read >= bytes || page.has(&mark));
        }
        house.log(live);
        house.live(&format!("/page/live?row={row}&view=output&after=0"), &mut page, |_, page| page.has("the end"));
        prop_assert_eq!(page.missed, 0);
        prop_assert_eq!(page.lines(), expected(&house, row, LineView::Output));
    }
}

#[test]
fn a_line_that_has_begun_is_open_until_it_ends() {
    let mut house = House::new();
    house.log([samples::started("make"), samples::output("stdout", "half ")]);
    let json = house.json(&format!("/page/lines?row={COMMAND}&view=output"));
    let after = json["last"].as_u64().unwrap();
    assert_eq!(after, 2);
    let mut page = Page {
        last: after,
        ..Page::default()
    };
    let path = format!("/page/live?row={COMMAND}&view=output&after={after}");
    house.live(&path, &mut page, |_, page| page.open.is_some());
    assert_eq!(page.open, Some(json!([["half "]])));
    house.log([samples::output("stdout", "done\n")]);
    house.live(&path, &mut page, |_, page| page.has("half done"));
    assert_eq!((page.open.clone(), page.last), (None, 3));
}

#[test]
fn links_and_colours_are_parts_of_a_line() {
    let mut house = House::new();
    let link = |start, end, url: &str| Link {
        line: 1,
        start,
        end,
        url: url.to_owned(),
    };
    let links = vec![link(4, 8, "https://a.example/"), link(8, 9, "mailto:b@c")];
    let mut update = samples::update_of("%1", 1, "see here!\n", vec![Style::new(0, 0, 3, "31")]);
    if let TdEvent::OutputUpdate { links: of, .. } = &mut update {
        *of = Links::new(links);
    }
    house.log([samples::session_started("s", &["%1"]), update]);
    let json = house.json(&format!("/page/lines?row={PANE}&view=output"));
    let spans = json!([
        ["see", "31"],
        [" "],
        ["here", "4", "https://a.example/"],
        ["!", "4", "mailto:b@c"]
    ]);
    assert_eq!(json["lines"][0]["spans"], spans);
    assert_eq!(json["lines"][0]["n"], 1);
}

#[test]
fn a_search_counts_all_matches_and_has_the_last_ones() {
    let mut house = House::new();
    let lines: String = (0..700).map(|line| format!("Line {line}\n")).collect();
    house.log([samples::started("make"), samples::output("stdout", &lines)]);
    let search = |q: &str| house.json(&format!("/page/search?row={COMMAND}&view=output&q={q}"));
    let found = search("line");
    assert_eq!(found["count"], 700);
    assert_eq!(found["is_complete"], true);
    let matches = found["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 500);
    assert_eq!(matches[499]["text"], "Line 699");
    assert_eq!(search("line%2069%5Cd")["count"], 10);
    assert_eq!(
        search("!Line").get("count"),
        Some(&json!(1)),
        "{:?}",
        search("!Line")
    );
    assert_eq!(
        house.status(&format!("/page/search?row={COMMAND}&view=output&q=")),
        400
    );
}

#[test]
fn the_timeline_has_the_states_of_all_rows() {
    let mut house = House::new();
    house.log([
        samples::session_started("s", &["%1"]),
        samples::agent_state("working", "title"),
        samples::agent_state("waiting", "title"),
    ]);
    house.forgotten([samples::started("make"), samples::completed(Some(0), None)]);
    let json = house.json("/page/timeline?span=300");
    let rows = json["rows"].as_array().unwrap();
    let [live, ended] = rows.as_slice() else {
        panic!("{json}")
    };
    assert_eq!((&live["id"], &live["ended"]), (&json!(PANE), &json!(false)));
    let last = live["bands"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], "waiting", "{json}");
    assert_eq!(ended["ended"], true);
    let last = ended["bands"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], "ended", "{json}");
    // Reading again adds what is new.
    house.log([samples::agent_state("working", "title")]);
    let json = house.json("/page/timeline?span=300");
    let last = json["rows"][0]["bands"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], "working", "{json}");
    assert_eq!(house.status("/page/timeline?span=59"), 400);
    assert_eq!(house.status("/page/timeline?span=604801"), 400);
}

#[test]
fn runs_that_have_ended_are_listed_and_read() {
    let mut house = House::new();
    house.log([samples::session_started("s", &["%1"])]);
    house.forgotten([
        samples::started("make"),
        samples::output("stdout", "old\n"),
        samples::completed(Some(0), None),
    ]);
    let rows = house.json("/page/history");
    let ids: Vec<&Value> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["id"])
        .collect();
    assert!(ids.contains(&&json!(COMMAND)), "{rows}");
    let json = house.json(&format!("/page/lines?row={COMMAND}&view=output"));
    assert!(json["lines"].to_string().contains("old"), "{json}");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut house = House::new();
    house.log([samples::started("make")]);
    for (path, status) in [
        ("/page/lines?row=nobody", 404),
        ("/page/lines", 404),
        ("/page/lines?row=make@17&view=screen", 400),
        ("/page/lines?row=make@17&after=x", 400),
        ("/page/lines?row=make@17&after=1&before=2", 400),
        ("/page/lines?row=make@17&from=1", 400),
        ("/page/live?row=make@17", 400),
        ("/page/other", 404),
        ("/page", 404),
        ("/page/lines?row=make@17", 200),
        ("/page/history", 200),
    ] {
        assert_eq!(house.status(path), status, "{path}");
    }
    assert_eq!(house.status_of("POST", "/page/history"), 405);
    assert_eq!(
        house.status_of("HEAD", "/page/live?row=make@17&after=0"),
        200
    );
}

#[test]
fn a_stream_without_an_observer_goes_on_when_it_is_there() {
    let mut house = House::new();
    house.log([samples::started("make"), samples::output("stdout", "one\n")]);
    house.away(true);
    let mut page = Page {
        last: 1,
        ..Page::default()
    };
    // The row is found in the history meanwhile.
    let stream = house.open(&format!("/page/live?row={COMMAND}&view=output&after=1"), 1);
    house.away(false);
    house.read(stream, &mut page, |_, page| page.has("one"));
    assert_eq!(page.lines().len(), 1);
}
