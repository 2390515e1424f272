//! Tests of the Telegram channel against a server that stands in for the API.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, bounded};
use proptest::prelude::*;
use serde_json::json;

use super::super::http::Limits;
use super::super::stand_in::{
    Act, CEILING, Recorded, StandIn, client, done, message, note, question,
};
use super::calls::fitting_units;
use super::*;
use crate::clock::FakeClock;
use crate::notify::channel::Asked;
use crate::notify::message::Settled;

const TOKEN: &str = "123:hunter2-AB_c";

/// Answers that are recorded, and refused for a row.
struct Typed {
    sender: Sender<(String, String, String)>,
    refused_row: &'static str,
}

impl Answers for Typed {
    fn answer(&self, asked: &Asked, key: &str) -> Result<(), String> {
        let row = asked.news.row.clone();
        if row == self.refused_row {
            return Err("The question has changed".into());
        }
        let answer = (row, asked.question_id.clone(), key.to_owned());
        self.sender.send(answer).unwrap();
        Ok(())
    }
}

/// A bot whose presses come from the test.
struct Fixture {
    server: StandIn,
    updates: Arc<Mutex<VecDeque<Act>>>,
    /// Rung when there are new updates.
    ring: Sender<()>,
    telegram: Telegram,
    answers: Receiver<(String, String, String)>,
    warnings: Receiver<String>,
    clock: FakeClock,
}

fn telegram(server: &StandIn, client: Client) -> Telegram {
    let (warnings, _) = bounded(1);
    let url = server.url("");
    let token = Secret::new(TOKEN);
    Telegram::new(Chat::Id(7), token, Some(&url), false, client, warnings).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let updates = Arc::new(Mutex::new(VecDeque::<Act>::new()));
        let (ring, rung) = bounded(1000);
        let theirs = Arc::clone(&updates);
        let server = StandIn::start(move |request| {
            let method = request.path.rsplit('/').next().unwrap();
            match method {
                "getUpdates" => match rung.recv_timeout(CEILING) {
                    Ok(()) => lock(&theirs).pop_front().unwrap_or(Act::Never),
                    Err(_) => Act::Never,
                },
                "sendMessage" => Act::json(200, &message(99)),
                _ => Act::json(200, &json!({"ok": true, "result": true})),
            }
        });
        let clock = FakeClock::new();
        let client = Client::new(Limits::default(), clock.clock());
        let (sender, answers) = bounded(100);
        let (warner, warnings) = bounded(100);
        let (url, token) = (server.url(""), Secret::new(TOKEN));
        let telegram = Telegram::new(Chat::Id(7), token, Some(&url), false, client, warner);
        let typed = Arc::new(Typed {
            sender,
            refused_row: "pane:%refused",
        });
        let telegram = telegram.unwrap().with_answers(vec![1, 2], typed).unwrap();
        Self {
            server,
            updates,
            ring,
            telegram,
            answers,
            warnings,
            clock,
        }
    }

    fn update(&self, act: Act) {
        lock(&self.updates).push_back(act);
        self.ring.send(()).unwrap();
    }

    fn press(&self, update_id: i64, user: i64, chat: i64, data: &str) {
        self.update(Act::json(200, &json!({"ok": true, "result": [{
            "update_id": update_id,
            "callback_query": {
                "id": format!("c{update_id}"), "from": {"id": user, "is_bot": false},
                "message": {"message_id": 99, "date": 1, "chat": {"id": chat, "type": "private"}},
                "chat_instance": "x", "data": data,
            },
        }]})));
    }

    /// Returns the next request of a method.
    #[track_caller]
    fn next(&self, method: &str) -> Value {
        loop {
            let request = self.server.next();
            if request.path == format!("/bot{TOKEN}/{method}") {
                return request.json();
            }
        }
    }

    /// Returns the next call for updates; the thread may wait a minute for it.
    #[track_caller]
    fn next_poll(&self) -> Value {
        let clock = Clock::system();
        let deadline = clock.now() + CEILING;
        loop {
            assert!(clock.now() < deadline, "no call for updates");
            // The time may pass before the thread begins to wait for it, so that it passes again.
            match self.server.requests.recv_timeout(Duration::from_millis(20)) {
                Ok(request) if request.path.ends_with("/getUpdates") => return request.json(),
                Ok(_) => {}
                Err(_) => self.clock.advance(Duration::from_secs(60)),
            }
        }
    }

    /// Returns what the user reads after a press.
    #[track_caller]
    fn toast(&self) -> String {
        let answer = self.next("answerCallbackQuery");
        answer["text"].as_str().unwrap().to_owned()
    }

    /// Sends a note, and returns the data of its buttons.
    fn send(&mut self, note: &Note) -> Vec<String> {
        self.telegram.send(note).unwrap();
        data_of(&self.next("sendMessage"))
    }
}

/// Ends the calls that the server holds back.
impl Drop for Fixture {
    fn drop(&mut self) {
        self.telegram.bot.client.shutdown();
        for _ in 0..10 {
            let _ = self.ring.send(());
        }
    }
}

fn data_of(message: &Value) -> Vec<String> {
    let rows = message["reply_markup"]["inline_keyboard"].as_array();
    let rows = rows.into_iter().flatten();
    rows.map(|row| row[0]["callback_data"].as_str().unwrap().to_owned())
        .collect()
}

fn replies(act: impl Fn(&Recorded) -> Act + Send + Sync + 'static) -> (StandIn, Telegram) {
    let server = StandIn::start(act);
    let telegram = telegram(&server, client(20_000));
    (server, telegram)
}

#[test]
fn a_message_is_sent_and_edited() {
    let (server, mut telegram) = replies(|_| Act::json(200, &message(42)));
    let mut note = note("n1", vec![question("a")]);
    let sent = telegram.send(&note).unwrap();
    assert_eq!(sent, Sent(Some("42".into())));
    let request = server.next();
    assert_eq!(request.path, format!("/bot{TOKEN}/sendMessage"));
    let text = "a (claude) asks\n\nRun cargo test?\n❯ 1. Yes\n  2. No";
    let disabled = json!({"is_disabled": true});
    assert_eq!(
        request.json(),
        json!({"chat_id": 7, "text": text, "link_preview_options": disabled})
    );
    note.items[0].settled = Some(Settled::Over);
    telegram.update(&note, &sent).unwrap();
    let request = server.next();
    assert_eq!(request.path, format!("/bot{TOKEN}/editMessageText"));
    let text = "✓ a (claude) asks [settled]\n\nRun cargo test?\n❯ 1. Yes\n  2. No";
    assert_eq!(
        request.json(),
        json!({
            "chat_id": 7, "message_id": 42, "text": text, "link_preview_options": disabled,
            "reply_markup": {"inline_keyboard": []},
        })
    );
    // Without the number of the message it stays as it is.
    telegram.update(&note, &Sent(None)).unwrap();
    assert_eq!(server.requests.len(), 0);
}

#[test]
fn an_edit_that_changes_nothing_is_a_success() {
    for description in [
        "Bad Request: message is not modified: specified new message content and reply markup are exactly the same",
        "Bad Request: message to edit not found",
        "Bad Request: message can't be edited",
        "Bad Request: MESSAGE_ID_INVALID",
    ] {
        let refusal = json!({"ok": false, "error_code": 400, "description": description});
        let (_server, mut telegram) = replies(move |_| Act::json(400, &refusal));
        let note = note("n1", vec![question("a")]);
        telegram.update(&note, &Sent(Some("1".into()))).unwrap();
        assert!(matches!(telegram.send(&note), Err(Unsent::Never(_))));
    }
}

#[test]
fn errors_are_obeyed_and_quoted_without_the_token() {
    let words = format!("Too Many Requests: retry {TOKEN} after 5");
    let unsent = |status: u16, more: Value| {
        let refusal =
            json!({"ok": false, "error_code": status, "description": words, "parameters": more});
        let (_server, mut telegram) = replies(move |_| Act::json(status, &refusal));
        let unsent = telegram.send(&note("n1", vec![question("a")])).unwrap_err();
        let shown = format!("{unsent:?} {telegram:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        unsent
    };
    let Unsent::Later(wait, words) = unsent(429, json!({"retry_after": 5})) else {
        panic!();
    };
    assert_eq!(wait, Some(Duration::from_secs(5)));
    assert!(words.contains("[redacted:api-key]"), "{words}");
    assert!(matches!(unsent(502, Value::Null), Unsent::Later(None, _)));
    for status in [400, 401, 403, 404] {
        assert!(
            matches!(unsent(status, Value::Null), Unsent::Never(_)),
            "{status}"
        );
    }
    let Unsent::Never(words) = unsent(400, json!({"migrate_to_chat_id": -100_123})) else {
        panic!();
    };
    assert!(words.contains("chat = -100123"), "{words}");
    // A refusal counts although its status is good.
    assert!(matches!(unsent(200, Value::Null), Unsent::Never(_)));
}

#[test]
fn a_message_that_may_have_arrived_is_not_sent_again() {
    for act in [|| Act::Close, || Act::Never] {
        let server = StandIn::start(move |_| act());
        let mut telegram = telegram(&server, client(300));
        let note = note("n1", vec![question("a")]);
        assert!(matches!(telegram.send(&note), Err(Unsent::Unconfirmed(_))));
        assert!(matches!(telegram.output("x"), Err(Unsent::Unconfirmed(_))));
        let again = telegram.update(&note, &Sent(Some("1".into())));
        assert!(matches!(again, Err(Unsent::Later(None, _))));
    }
    let (_server, mut telegram) = replies(|_| Act::Half("{\"ok\":true,\"res".into()));
    assert_eq!(
        telegram.send(&note("n1", vec![question("a")])),
        Ok(Sent(None))
    );
}

#[test]
fn a_redirect_gets_no_token() {
    let location = "location: https://elsewhere.example/bot123:hunter2/x\r\n";
    let (_server, mut telegram) =
        replies(move |_| Act::Answer(308, location.into(), String::new()));
    let Err(Unsent::Never(words)) = telegram.send(&note("n1", vec![question("a")])) else {
        panic!();
    };
    assert!(
        words.contains("redirects to https://elsewhere.example;"),
        "{words}"
    );
    assert!(!words.contains("hunter2"), "{words}");
}

#[test]
fn what_is_no_token_is_refused() {
    for token in ["", "a b", "1:a/../b", "1:é"] {
        let (warnings, _) = bounded(1);
        let token = Secret::new(token);
        let telegram = Telegram::new(Chat::Id(1), token, None, false, client(1), warnings);
        assert!(telegram.unwrap_err().is_invalid_input());
    }
}

#[test]
fn a_press_answers_this_question() {
    let mut fixture = Fixture::new();
    let data = fixture.send(&note("n1", vec![question("a"), question("b"), done("c")]));
    assert_eq!(data.len(), 4);
    assert!(data.iter().all(|data| data.len() <= 64));
    fixture.press(10, 2, 7, &data[3]);
    assert_eq!(fixture.toast(), "Answered: No");
    let answer = fixture.answers.recv_timeout(CEILING).unwrap();
    assert_eq!(answer, ("pane:%b".into(), "q-b".into(), "2".into()));
    // The other choice of the same question comes too late; the next call confirms the press before.
    fixture.press(11, 2, 7, &data[2]);
    assert_eq!(fixture.next("getUpdates")["offset"], 11);
    assert_eq!(fixture.toast(), "This question is no longer open");
    // The other question is still open.
    fixture.press(12, 1, 7, &data[0]);
    assert_eq!(fixture.toast(), "Answered: Yes");
    assert_eq!(fixture.answers.len(), 1);
}

#[test]
fn a_press_that_must_not_count_answers_nothing() {
    let mut fixture = Fixture::new();
    let mut note = note("n1", vec![question("a"), question("refused")]);
    let data = fixture.send(&note);
    for (id, (user, chat)) in [(9, 7), (1, 8), (9, 8), (9, 7)].into_iter().enumerate() {
        fixture.press(id as i64, user, chat, &data[0]);
        assert_eq!(fixture.toast(), "You may not answer here");
    }
    let warning = fixture.warnings.recv_timeout(CEILING).unwrap();
    assert!(warning.contains("user 9"), "{warning}");
    assert_eq!(fixture.warnings.len(), 0);
    // Why the observer types nothing.
    fixture.press(20, 1, 7, &data[2]);
    assert_eq!(fixture.toast(), "The question has changed");
    // Buttons from before the start, and what no button sends.
    for (id, data) in ["n0.0011223344556677", "n1.0011223344556677", "n1", "", "."]
        .into_iter()
        .enumerate()
    {
        fixture.press(30 + id as i64, 1, 7, data);
        assert_eq!(fixture.toast(), "This question is no longer open");
    }
    note.items[0].settled = Some(Settled::Over);
    fixture
        .telegram
        .update(&note, &Sent(Some("99".into())))
        .unwrap();
    assert_eq!(data_of(&fixture.next("editMessageText")), &data[2..]);
    fixture.press(40, 1, 7, &data[0]);
    assert_eq!(fixture.toast(), "This question is no longer open");
    assert_eq!(fixture.answers.len(), 0);
}

#[test]
fn an_adopted_message_keeps_its_buttons_in_any_order() {
    let mut fixture = Fixture::new();
    let mut note = note("n1", vec![question("a"), question("b")]);
    let data = data_of(&json!({"reply_markup": keyboard(&note).unwrap()}));
    // Another process has found the rows and the choices in another order.
    note.items.reverse();
    note.items[1].choices.reverse();
    fixture.telegram.adopt(&note, &Sent(Some("1".into())));
    fixture.press(1, 1, 7, &data[1]);
    assert_eq!(fixture.toast(), "Answered: No");
    let answer = fixture.answers.recv_timeout(CEILING).unwrap();
    assert_eq!(answer, ("pane:%a".into(), "q-a".into(), "2".into()));
    // A choice that means something else now.
    note.items[0].choices[0].label = "Yes, and delete everything".into();
    fixture.telegram.adopt(&note, &Sent(Some("1".into())));
    fixture.press(2, 1, 7, &data[2]);
    assert_eq!(fixture.toast(), "This question is no longer open");
}

#[test]
fn another_reader_is_reported_once_and_asked_again_each_minute() {
    let fixture = Fixture::new();
    let words = "Conflict: terminated by other getUpdates request";
    let conflict = json!({"ok": false, "error_code": 409, "description": words});
    for _ in 0..3 {
        fixture.update(Act::json(409, &conflict));
    }
    for _ in 0..4 {
        fixture.next_poll();
    }
    let warning = fixture.warnings.recv_timeout(CEILING).unwrap();
    assert!(warning.contains(words), "{warning}");
    assert_eq!(fixture.warnings.len(), 0);
}

#[test]
fn an_offset_is_forgotten_once_it_has_confirmed() {
    let mut fixture = Fixture::new();
    let data = fixture.send(&note("n1", vec![question("a")]));
    fixture.press(10, 1, 7, &data[0]);
    assert_eq!(fixture.toast(), "Answered: Yes");
    assert_eq!(fixture.next_poll()["offset"], 11);
    // The call that confirms fails, and is made again.
    fixture.update(Act::Close);
    assert_eq!(fixture.next_poll()["offset"], 11);
    fixture.update(Act::json(200, &json!({"ok": true, "result": []})));
    assert_eq!(fixture.next_poll()["offset"], Value::Null);
    // The numbers go on anywhere.
    fixture.press(3, 1, 7, &data[0]);
    assert_eq!(fixture.next_poll()["offset"], 4);
}

#[test]
fn foreign_updates_are_survived() {
    let mut fixture = Fixture::new();
    let data = fixture.send(&note("n1", vec![question("a")]));
    for wrong in [
        json!({"ok": true, "result": [{"update_id": 1}, 2, null, {"callback_query": {}}]}),
        json!({"ok": true, "result": [{"update_id": i64::MAX, "callback_query": {"id": 5}}]}),
        json!({"ok": true, "result": {"x": 1}}),
        json!({"ok": true}),
        json!([]),
    ] {
        fixture.update(Act::json(200, &wrong));
    }
    fixture.update(Act::Half("{\"ok\":true,\"result\":[".into()));
    fixture.update(Act::Close);
    fixture.press(5, 1, 7, &data[0]);
    let clock = fixture.clock.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let time = spawn("time", move || {
        let pause = || Clock::system().after(Duration::from_millis(10)).recv();
        while !over.load(Ordering::SeqCst) && pause().is_ok() {
            clock.advance(Duration::from_secs(60));
        }
    });
    assert_eq!(fixture.toast(), "Answered: Yes");
    is_over.store(true, Ordering::SeqCst);
    time.unwrap().join_logged();
}

#[test]
fn the_thread_ends_with_the_channel() {
    let server = StandIn::start(|_| Act::Never);
    let (sender, _answers) = bounded(1);
    let typed = Arc::new(Typed {
        sender,
        refused_row: "",
    });
    let telegram = telegram(&server, client(60_000));
    let telegram = telegram.with_answers(vec![1], typed).unwrap();
    server.next();
    let clock = Clock::system();
    let begun = clock.now();
    let buttons = Arc::downgrade(telegram.buttons.as_ref().unwrap());
    drop(telegram);
    assert!(clock.now() - begun < Duration::from_millis(500));
    while buttons.strong_count() > 0 {
        assert!(clock.now() < begun + CEILING);
        std::thread::yield_now();
    }
}

#[test]
fn an_abort_ends_all_calls() {
    let server = StandIn::start(|_| Act::Never);
    let (sender, _answers) = bounded(1);
    let typed = Arc::new(Typed {
        sender,
        refused_row: "",
    });
    let telegram = telegram(&server, client(60_000));
    let mut telegram = telegram.with_answers(vec![1], typed).unwrap();
    let abort = telegram.abort();
    let sending = spawn("sending", move || {
        let sent = telegram.send(&note("n1", vec![question("a")]));
        (sent, telegram)
    });
    server.next();
    server.next();
    let clock = Clock::system();
    let begun = clock.now();
    abort();
    let ended = sending.unwrap().join_deadline(begun + CEILING);
    let (sent, mut telegram) = ended.unwrap().unwrap();
    assert!(clock.now() - begun < Duration::from_millis(500));
    assert!(matches!(sent, Err(Unsent::Unconfirmed(_))), "{sent:?}");
    let reader = telegram.reader.take().unwrap();
    reader.join_deadline(begun + CEILING).unwrap().unwrap();
}

#[test]
fn buttons_need_a_text_and_room() {
    let mut hidden = question("a");
    (hidden.text, hidden.dialogue) = (None, None);
    assert_eq!(keyboard(&note("n1", vec![hidden])), None);
    assert_eq!(keyboard(&note(&"n".repeat(48), vec![question("a")])), None);
    let longest = keyboard(&note(&"n".repeat(47), vec![question("a")])).unwrap();
    assert_eq!(data_of(&json!({"reply_markup": longest}))[0].len(), 64);
    let mut keyless = question("a");
    keyless.choices[0].key = String::new();
    let rows = keyboard(&note("n1", vec![keyless])).unwrap();
    assert_eq!(rows["inline_keyboard"].as_array().unwrap().len(), 1);
}

#[test]
fn the_memory_of_buttons_is_bounded() {
    let mut buttons = Buttons::default();
    let first = note("n0", vec![question("a")]);
    let data = data_of(&json!({"reply_markup": keyboard(&first).unwrap()}));
    buttons.add(&first);
    assert!(buttons.get(&data[0]).is_some());
    for id in 1..=256 {
        buttons.add(&note(&format!("n{id}"), vec![question("a")]));
    }
    assert!(buttons.get(&data[0]).is_none());
}

proptest! {
    #[test]
    fn a_cut_counts_utf16_units(text in "(a|é|😀|\u{1F468}\u{200D}\u{1F469}|\n){0,60}", units in 0_usize..40) {
        let kept = fitting_units(&text, units);
        prop_assert!(kept.encode_utf16().count() <= units);
        prop_assert!(text.starts_with(kept));
        if let Some(next) = text[kept.len()..].chars().next() {
            prop_assert!(kept.encode_utf16().count() + next.len_utf16() > units);
        }
        let cut = cut_units(&text, units.max(1));
        prop_assert!(cut.encode_utf16().count() <= units.max(1));
        prop_assert_eq!(cut == text, text.encode_utf16().count() <= units.max(1));
    }

    #[test]
    fn a_button_is_found_by_its_data(
        rows in proptest::collection::vec("[a-z]{1,3}", 1..8),
        keys in proptest::collection::btree_set("[0-9a-z]{1,4}", 1..5),
        id in "[0-9a-zA-Z]{1,40}",
    ) {
        let mut items: Vec<_> = rows.iter().map(|row| question(row)).collect();
        for item in &mut items {
            let choice = item.choices[0].clone();
            let with = |key: &String| crate::event::DialogueChoice { key: key.clone(), ..choice.clone() };
            item.choices = keys.iter().map(with).collect();
        }
        let note = note(&id, items);
        let mut buttons = Buttons::default();
        buttons.add(&note);
        let data = data_of(&json!({"reply_markup": keyboard(&note).unwrap()}));
        let mut data = data.iter();
        for item in &note.items {
            for choice in &item.choices {
                let button = buttons.get(data.next().unwrap()).unwrap();
                prop_assert_eq!(&button.asked.news.row, &item.row);
                prop_assert_eq!(&button.key, &choice.key);
            }
        }
    }
}
