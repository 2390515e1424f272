//! ntfy: publishes notifications to a topic, and dismisses them on the phone when they are settled.
//!
//! Sources: the chapters "Publish as JSON", "Message priority", "Updating + deleting notifications" and "Limitations"
//! of ntfy's documentation.
//!
//! All publications of a message carry its id as their sequence id, so that one that arrives twice is shown once, and
//! that the app replaces what it shows. When everything in a message is settled, `PUT /TOPIC/ID/clear` dismisses the
//! notification and marks it as read. It stays in the app's list: a user who heard the phone can still see what it
//! was, which a deletion (`DELETE /TOPIC/ID`) would prevent. A message of which a part is settled is published again,
//! at a priority without sound.
//!
//! Servers before 2.16 ignore sequence ids and would show an update as another notification. Their answer to a
//! publication repeats no sequence id; then only the path that clears is asked for, which they do not know.

use serde_json::{Value, json};

use super::http::{Answer, Client, Method, Request, Target};
use super::{Channel, Sent, Unsent};
use crate::agent_loop::Secret;
use crate::error::{Error, Result};
use crate::notify::message::{News, Note, cut};

/// A longer message becomes an attached file ("Limitations": "up to 4,096 bytes").
const MESSAGE_BYTES_MAX: usize = 4096;

/// A longer request is refused: the server reads twice the length of a message ("server/server.go":
/// `transformBodyJSON`).
const REQUEST_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// The most characters of a title. ntfy documents no limit, and phones show one or two lines.
const TITLE_CHARS_MAX: usize = 200;

/// The longest address that a tap opens: a message and two of them fit into a request.
const CLICK_BYTES_MAX: usize = 1024;

/// The priority of a publication that changes a shown notification: neither sound nor vibration ("Message priority").
const QUIET: u8 = 2;

/// A topic of an ntfy server.
#[derive(Debug)]
pub(in crate::notify) struct Ntfy {
    /// The root of the server.
    root: Target,
    topic: Topic,
    token: Option<Secret>,
    /// What a tap on a notification opens.
    click: Option<String>,
    client: Client,
}

/// The name of a topic, which is its password.
struct Topic(String);

impl std::fmt::Debug for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[topic]")
    }
}

/// Returns true for what ntfy accepts as the name of a topic, or as a sequence id.
fn is_name(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_valid)
}

impl Ntfy {
    /// Creates a channel for the URL of a topic, such as `https://ntfy.sh/mytopic`.
    ///
    /// # Errors
    /// `is_invalid_input()` when the URL is none of a topic, or would send the messages in plain text to another
    /// machine, and when the token has characters that no token has.
    pub fn new(
        url: &str,
        is_plain_allowed: bool,
        token: Option<Secret>,
        click: Option<String>,
        client: Client,
    ) -> Result<Self> {
        let target = Target::new(url, is_plain_allowed)?;
        let (root, topic) = target
            .split_last()
            .filter(|(_, topic)| is_name(topic))
            .ok_or_else(|| {
                Error::invalid("the url must end with a topic, as in https://ntfy.sh/mytopic")
            })?;
        if let Some(token) = &token {
            token.header("Bearer ")?;
        }
        if click
            .as_ref()
            .is_some_and(|click| click.len() > CLICK_BYTES_MAX)
        {
            return Err(Error::invalid("click is longer than 1,024 bytes"));
        }
        Ok(Self {
            root,
            topic: Topic(topic.to_owned()),
            token,
            click,
            client,
        })
    }

    fn ask(&self, method: Method, target: &Target, body: &[u8]) -> Result<Answer, Unsent> {
        let mut request = Request::json(target, body);
        request.method = method;
        if let Some(token) = &self.token {
            let header = token.header("Bearer ");
            let header = header.map_err(|error| Unsent::Never(error.to_string()))?;
            request.headers.push(("authorization", header));
        }
        let answer = self.client.send(&request);
        answer.map_err(|failure| failure.of_idempotent())
    }

    fn check(&self, answer: &Answer) -> Result<(), Unsent> {
        // "limit reached: daily message quota reached" is in the field `error`.
        let json = answer.json();
        answer.check(&self.without_secrets(json["error"].as_str().unwrap_or_default()))
    }

    fn without_secrets(&self, text: &str) -> String {
        let text = text.replace(&self.topic.0, "[topic]");
        match &self.token {
            Some(token) => token.redact(&text),
            None => text,
        }
    }

    fn publish(&self, body: &Value) -> Result<Value, Unsent> {
        let body = body.to_string().into_bytes();
        let answer = self.ask(Method::Post, &self.root.join(""), &body)?;
        self.check(&answer)?;
        Ok(answer.json())
    }

    /// Dismisses a notification.
    fn clear(&self, sequence_id: &str) -> Result<(), Unsent> {
        let path = format!("{}/{sequence_id}/clear", self.topic.0);
        let answer = self.ask(Method::Put, &self.root.join(&path), b"")?;
        match answer.status {
            // A server before 2.16 does not know the path.
            404 | 405 => Ok(()),
            _ => self.check(&answer),
        }
    }
}

/// Returns the body of a message's publication, or of one that replaces it.
fn publication(topic: &str, note: &Note, click: Option<&str>, is_update: bool) -> Value {
    let title = note.title();
    // An empty message would read "triggered".
    let (title, message) = match note.body(MESSAGE_BYTES_MAX) {
        body if body.trim().is_empty() => (None, title),
        body => (Some(cut(&title, TITLE_CHARS_MAX)), body),
    };
    let open = note.items.iter().filter(|item| item.settled.is_none());
    let news: Vec<News> = open.map(|item| item.news).collect();
    let priority = news.iter().copied().map(priority).max();
    let mut body = json!({
        "topic": topic,
        "priority": if is_update { QUIET } else { priority.unwrap_or(QUIET) },
        "tags": [tag(news.iter().copied().min())],
    });
    if let Some(title) = title {
        body["title"] = json!(title);
    }
    if let Some(click) = click {
        body["click"] = json!(click);
        // The same as a button, which also dismisses the notification ("Action buttons").
        body["actions"] = json!([{"action": "view", "label": "Open", "url": click, "clear": true}]);
    }
    if is_name(&note.id) {
        body["sequence_id"] = json!(note.id);
    }
    with_message(body, &message)
}

/// Adds a text that is cut to what the server accepts.
fn with_message(mut body: Value, text: &str) -> Value {
    const CUT: &str = "…";
    // Room for `,"message":""`.
    let escaped_max = REQUEST_BYTES_MAX - body.to_string().len() - 16;
    let message = match fitting(text, MESSAGE_BYTES_MAX, escaped_max) {
        all if all.len() == text.len() => text.to_owned(),
        _ => {
            let bytes_max = MESSAGE_BYTES_MAX - CUT.len();
            let kept = fitting(text, bytes_max, escaped_max - CUT.len());
            format!("{kept}{CUT}")
        }
    };
    body["message"] = json!(message);
    body
}

/// Returns the bytes of a character in a string of JSON.
pub(super) fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' => 6,
        c => c.len_utf8(),
    }
}

/// Returns the beginning of a text that has at most so many bytes, and so many as JSON.
fn fitting(text: &str, bytes_max: usize, escaped_max: usize) -> &str {
    let mut escaped = 0;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        escaped += escaped_len(c);
        if end > bytes_max || escaped > escaped_max {
            return &text[..start];
        }
    }
    text
}

/// Returns the priority of ntfy: 4 also pops up, 3 is the default, 2 makes no sound ("Message priority"). 5 vibrates
/// for long and is left to what the user counts as an emergency.
fn priority(news: News) -> u8 {
    match news {
        News::Waiting | News::Error | News::Failed => 4,
        News::Limited | News::Suspended | News::Done => 3,
        News::Ended => QUIET,
    }
}

/// Returns the short code of an emoji that ntfy puts before the title ("Emoji reference").
fn tag(most_urgent: Option<News>) -> &'static str {
    match most_urgent {
        Some(News::Waiting) => "question",
        Some(News::Error) => "warning",
        Some(News::Limited) => "hourglass_flowing_sand",
        Some(News::Failed) => "x",
        Some(News::Suspended) => "pause_button",
        Some(News::Done) | None => "white_check_mark",
        Some(News::Ended) => "checkered_flag",
    }
}

/// Begins what is remembered of a publication whose answer does not show that the server knows sequence ids.
const UNSURE: char = '?';

/// Returns what to remember of a publication: its sequence id, and if the server may not know sequence ids.
fn sent(note: &Note, answer: &Value) -> Sent {
    let is_known = match answer {
        // The answer broke off: the attempt to clear tells.
        Value::Null => true,
        answer => answer["sequence_id"] == *note.id,
    };
    let id = is_name(&note.id).then(|| note.id.clone());
    Sent(id.map(|id| {
        if is_known {
            id
        } else {
            format!("{UNSURE}{id}")
        }
    }))
}

impl Channel for Ntfy {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        let answer = self.publish(&publication(
            &self.topic.0,
            note,
            self.click.as_deref(),
            false,
        ))?;
        Ok(sent(note, &answer))
    }

    fn update(&mut self, note: &Note, sent: &Sent) -> Result<(), Unsent> {
        let Some(sent) = &sent.0 else {
            return Ok(());
        };
        let sequence_id = sent.trim_start_matches(UNSURE);
        if !is_name(sequence_id) {
            return Ok(());
        }
        if note.is_settled() {
            self.clear(sequence_id)
        } else if sent.starts_with(UNSURE) {
            Ok(())
        } else {
            let update = publication(&self.topic.0, note, self.click.as_deref(), true);
            self.publish(&update).map(|_| ())
        }
    }

    fn output(&mut self, text: &str) -> Result<(), Unsent> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let body = json!({"topic": self.topic.0, "priority": QUIET});
        self.publish(&with_message(body, text)).map(|_| ())
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        let client = self.client.clone();
        Box::new(move || client.shutdown())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stand_in::{Act, StandIn, client, done, note, question};
    use super::*;
    use crate::notify::message::Settled;

    fn ntfy(server: &StandIn) -> Ntfy {
        let token = Some(Secret::new("tk_hunter2"));
        Ntfy::new(
            &server.url("/secret-topic"),
            false,
            token,
            None,
            client(20_000),
        )
        .unwrap()
    }

    /// A server that answers publications as version 2.16 does.
    fn current() -> StandIn {
        StandIn::start(|request| {
            let mut answer = request.json();
            answer["id"] = json!("abc");
            Act::json(200, &answer)
        })
    }

    #[test]
    fn a_message_is_published_and_cleared() {
        let server = current();
        let mut ntfy = ntfy(&server);
        let mut note = note("n1", vec![question("a")]);
        let sent = ntfy.send(&note).unwrap();
        assert_eq!(sent, Sent(Some("n1".into())));
        let request = server.next();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/")
        );
        assert_eq!(request.header("authorization"), Some("Bearer tk_hunter2"));
        assert_eq!(
            request.json(),
            json!({
                "topic": "secret-topic", "title": "a (claude) asks", "tags": ["question"],
                "message": "Run cargo test?\n❯ 1. Yes\n  2. No", "priority": 4, "sequence_id": "n1",
            })
        );
        note.items[0].settled = Some(Settled::Over);
        ntfy.update(&note, &sent).unwrap();
        let request = server.next();
        let line = (request.method.as_str(), request.path.as_str());
        assert_eq!(line, ("PUT", "/secret-topic/n1/clear"));
        assert_eq!(request.header("authorization"), Some("Bearer tk_hunter2"));
    }

    #[test]
    fn a_partly_settled_message_is_replaced_without_a_sound() {
        let server = current();
        let mut ntfy = ntfy(&server);
        let mut note = note("n1", vec![question("a"), done("b")]);
        let sent = ntfy.send(&note).unwrap();
        assert_eq!(server.next().json()["priority"], 4);
        note.items[0].settled = Some(Settled::Over);
        ntfy.update(&note, &sent).unwrap();
        let update = server.next().json();
        assert_eq!(
            (&update["priority"], &update["sequence_id"]),
            (&json!(2), &json!("n1"))
        );
        assert_eq!(update["tags"], json!(["white_check_mark"]));
        assert!(update["message"].as_str().unwrap().contains("✓ a (claude)"));
    }

    #[test]
    fn an_old_server_gets_no_update() {
        let answer = json!({"id": "abc", "event": "message", "topic": "t", "message": "m"});
        let server = StandIn::start(move |_| Act::json(200, &answer));
        let mut ntfy = ntfy(&server);
        let mut note = note("n1", vec![question("a")]);
        let sent = ntfy.send(&note).unwrap();
        assert_eq!(sent, Sent(Some("?n1".into())));
        server.next();
        // A part of a message would be another notification; a path that it does not know does no harm.
        note.items.push(question("b"));
        note.items[0].settled = Some(Settled::Over);
        ntfy.update(&note, &sent).unwrap();
        assert_eq!(server.requests.len(), 0);
        note.items.pop();
        ntfy.update(&note, &sent).unwrap();
        assert!(server.next().path.ends_with("/n1/clear"));
        // It does not know the path, if one asks.
        let server = StandIn::start(|_| Act::json(404, &json!({"error": "page not found"})));
        let sent = Sent(Some("n1".into()));
        self::ntfy(&server).update(&note, &sent).unwrap();
        // An answer that breaks off does not tell.
        let server = StandIn::start(|_| Act::Half("{".into()));
        note.items[0].settled = None;
        assert_eq!(self::ntfy(&server).send(&note), Ok(sent));
    }

    #[test]
    fn a_refusal_is_quoted_without_secrets() {
        let words = "topic secret-topic is not for tk_hunter2";
        for (status, is_final) in [(403, true), (429, false)] {
            let server = StandIn::start(move |_| Act::json(status, &json!({"error": words})));
            let mut ntfy = ntfy(&server);
            let unsent = ntfy.send(&note("n1", vec![question("a")])).unwrap_err();
            let shown = format!("{unsent:?} {ntfy:?}");
            assert!(
                !shown.contains("hunter2") && !shown.contains("secret-topic"),
                "{shown}"
            );
            assert!(shown.contains("topic [topic] is not for"), "{shown}");
            assert_eq!(matches!(unsent, Unsent::Never(_)), is_final);
            assert_eq!(matches!(unsent, Unsent::Later(..)), !is_final);
        }
    }

    #[test]
    fn the_url_is_that_of_a_topic() {
        let new = |url: &str| Ntfy::new(url, false, None, None, client(1));
        let root = |url: &str| new(url).unwrap().root.join("x").split_last().is_some();
        assert!(root("https://ntfy.sh/mytopic"));
        assert_eq!(new("https://a.b/ntfy/mytopic/").unwrap().topic.0, "mytopic");
        for wrong in [
            "https://ntfy.sh",
            "https://ntfy.sh/",
            "https://ntfy.sh/my.topic",
            "https://ntfy.sh/mytopic?auth=x",
            "http://ntfy.sh/mytopic",
        ] {
            assert!(new(wrong).is_err(), "{wrong}");
        }
        assert!(
            Ntfy::new(
                "https://a/b",
                false,
                Some(Secret::new("a b")),
                None,
                client(1)
            )
            .is_err()
        );
    }

    #[test]
    fn a_message_without_text_has_no_empty_body() {
        let mut item = question("a");
        (item.text, item.dialogue) = (None, None);
        let body = publication(
            "t",
            &note("n1", vec![item]),
            Some("https://host/page"),
            false,
        );
        assert_eq!(body["message"], "a (claude) asks");
        assert_eq!(body["title"], Value::Null);
    }

    proptest! {
        #[test]
        fn every_text_fits(text in "(\\PC|[\n\t\"\\\\\u{1}😀é]){0,3000}", times in 1_usize..4) {
            let text = text.repeat(times);
            let mut item = question("a");
            item.dialogue = Some(text.clone());
            let body = publication("topic", &note("n1", vec![item]), Some("https://host/page"), false);
            prop_assert!(body.to_string().len() <= REQUEST_BYTES_MAX);
            prop_assert!(body["message"].as_str().unwrap().len() <= MESSAGE_BYTES_MAX);
            let part = fitting(&text, MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX - 256);
            let output = with_message(json!({"topic": "t".repeat(64), "priority": 2}), part);
            prop_assert!(output.to_string().len() <= REQUEST_BYTES_MAX);
            prop_assert_eq!(output["message"].as_str().unwrap(), part);
            prop_assert!(part.len() + 3 >= MESSAGE_BYTES_MAX.min(text.len()).min(1000));
        }
    }
}
