//! Webhooks: sends notifications to programs, as signed JSON, one event for each message and each settled item.
//!
//! An event is posted as it is in [`Note::envelope`]. `X-TD-Event-Id` repeats its id, and `X-TD-Signature` is
//! `sha256=` and the HMAC-SHA256 of the body's bytes in hexadecimal digits. An event that is sent again has the same id,
//! so that the program can ignore it.
//!
//! When an item is settled, a second event follows, which has `"resolved": true` and this item only, even if the
//! message combined several: a program closes what it opened for a row or a question without comparing lists.

use std::collections::VecDeque;
use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ureq::http::HeaderValue;

use super::http::{Client, Request, Target};
use super::{Channel, Sent, Unsent};
use crate::agent_loop::Secret;
use crate::error::Result;
use crate::event::SCHEMA;
use crate::notify::message::{Item, Note};

/// The ids of the events about settled items that are kept to send none twice: those of the last hours.
const RESOLVED_MAX: usize = 1024;

/// A webhook.
#[derive(Debug)]
pub(in crate::notify) struct Webhook {
    name: String,
    target: Target,
    secret: Option<Secret>,
    client: Client,
    resolved: VecDeque<String>,
    /// The event of output that has not been sent, for the next attempt.
    output: Option<(String, Value)>,
}

impl Webhook {
    /// Creates a webhook with the name of its channel.
    ///
    /// # Errors
    /// `is_invalid_input()` when the URL is none, or would send the events in plain text to another machine.
    pub fn new(
        name: &str,
        url: &str,
        is_plain_allowed: bool,
        secret: Option<Secret>,
        client: Client,
    ) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            target: Target::new(url, is_plain_allowed)?,
            secret,
            client,
            resolved: VecDeque::new(),
            output: None,
        })
    }

    fn post(&self, id: &str, event: &Value) -> Result<(), Unsent> {
        let body = event.to_string().into_bytes();
        let mut request = Request::json(&self.target, &body);
        for (name, value) in headers(id, self.secret.as_ref(), &body) {
            // Ids and signatures consist of letters, digits and `=`.
            let value = HeaderValue::try_from(value)
                .map_err(|_| Unsent::Never("the id of the event is not valid".into()))?;
            request.headers.push((name, value));
        }
        let answer = self.client.send(&request);
        // The answer's body is not quoted: it may repeat the request.
        answer.map_err(|failure| failure.of_idempotent())?.check("")
    }

    /// Remembers that an event has been sent.
    fn remember(&mut self, id: &str) {
        if self.resolved.len() == RESOLVED_MAX {
            self.resolved.pop_front();
        }
        self.resolved.push_back(id.to_owned());
    }
}

/// Returns the headers that authenticate an event.
fn headers(id: &str, secret: Option<&Secret>, body: &[u8]) -> Vec<(&'static str, String)> {
    let mut headers = vec![("x-td-event-id", id.to_owned())];
    if let Some(secret) = secret {
        headers.push(("x-td-signature", signature(secret, body)));
    }
    headers
}

/// Returns `sha256=` and the HMAC-SHA256 of a body.
fn signature(secret: &Secret, body: &[u8]) -> String {
    let key = secret.expose().as_bytes();
    let mut signature = String::from("sha256=");
    // A key of any length is accepted.
    if let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) {
        let mac = mac.chain_update(body).finalize().into_bytes();
        push_hex(&mut signature, &mac);
    }
    signature
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

/// Returns the id of the event that says that an item of a message is settled. It depends on what the item is about,
/// and neither on its place in the message nor on what has become of it.
fn resolved_id(note: &Note, item: &Item) -> String {
    let about = json!([
        item.news.as_str(),
        item.row,
        item.execution_id,
        item.question_id,
        item.question,
        item.since
    ]);
    let digest = Sha256::digest(about.to_string().as_bytes());
    let mut id = format!("{}r", note.id);
    push_hex(&mut id, &digest[..8]);
    id
}

/// Returns the events about the settled items of a message, with their ids.
fn resolved_events(note: &Note, channel: &str) -> Vec<(String, Value)> {
    let settled = note.items.iter().filter(|item| item.settled.is_some());
    let events = settled.map(|item| {
        let id = resolved_id(note, item);
        let single = Note {
            items: vec![item.clone()],
            ..note.clone()
        };
        let event = single.envelope(&id, channel);
        (id, event)
    });
    events.collect()
}

impl Channel for Webhook {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        self.post(&note.id, &note.envelope(&note.id, &self.name))?;
        Ok(Sent(None))
    }

    fn update(&mut self, note: &Note, _sent: &Sent) -> Result<(), Unsent> {
        for (id, event) in resolved_events(note, &self.name) {
            if !self.resolved.contains(&id) {
                self.post(&id, &event)?;
                self.remember(&id);
            }
        }
        Ok(())
    }

    fn output(&mut self, text: &str) -> Result<(), Unsent> {
        let (id, event) = match self.output.take() {
            // The same text again is another attempt, because what has been sent is forgotten.
            Some((id, event)) if event["event"]["text"] == *text => (id, event),
            _ => {
                let now = self.client.clock().wall();
                let id = format!("o{}", now.micros());
                let event = json!({"schema": SCHEMA, "ts": now, "event": {
                    "type": "NotificationOutput", "id": id, "channel": self.name, "text": text,
                }});
                (id, event)
            }
        };
        let sent = self.post(&id, &event);
        if sent.is_err() {
            self.output = Some((id, event));
        }
        sent
    }

    fn adopt(&mut self, note: &Note, _sent: &Sent) {
        for (id, _) in resolved_events(note, &self.name) {
            self.remember(&id);
        }
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        let client = self.client.clone();
        Box::new(move || client.shutdown())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::{Act, Recorded, StandIn, client, done, note, question};
    use super::*;
    use crate::notify::message::Settled;
    use std::sync::atomic::{AtomicU16, Ordering};

    fn webhook(server: &StandIn) -> Webhook {
        let secret = Some(Secret::new("hunter2"));
        Webhook::new("ci", &server.url("/hook"), false, secret, client(20_000)).unwrap()
    }

    fn good() -> StandIn {
        StandIn::start(|_| Act::Answer(204, String::new(), String::new()))
    }

    fn event(request: &Recorded) -> Value {
        let event = request.json()["event"].clone();
        assert_eq!(request.header("x-td-event-id"), event["id"].as_str());
        event
    }

    /// From RFC 4231, test case 2.
    #[test]
    fn the_signature_is_an_hmac() {
        assert_eq!(
            signature(&Secret::new("Jefe"), b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn an_event_is_the_envelope_and_is_signed() {
        let server = good();
        let note = note("n1", vec![question("a"), done("b")]);
        webhook(&server).send(&note).unwrap();
        let request = server.next();
        assert_eq!(request.json(), note.envelope("n1", "ci"));
        assert_eq!(event(&request)["more"].as_array().unwrap().len(), 1);
        let signed = signature(&Secret::new("hunter2"), &request.body);
        assert_eq!(request.header("x-td-signature"), Some(signed.as_str()));
        assert!(!format!("{:?}", webhook(&server)).contains("hunter2"));
        // Without a secret there is no signature.
        let mut plain = Webhook::new("ci", &server.url("/"), false, None, client(20_000)).unwrap();
        plain.send(&note).unwrap();
        assert_eq!(server.next().header("x-td-signature"), None);
    }

    #[test]
    fn each_settled_item_is_one_event() {
        let server = good();
        let mut webhook = webhook(&server);
        let mut note = note("n1", vec![question("a"), question("b"), done("c")]);
        note.items[1].settled = Some(Settled::Over);
        webhook.update(&note, &Sent(None)).unwrap();
        let first = event(&server.next());
        assert_eq!(first["resolved"], true);
        assert_eq!(first["notification"], "n1");
        assert_eq!(first["question_id"], "q-b");
        assert_eq!(first["more"], Value::Null);
        // The other items follow, in another order, and nothing is repeated.
        note.items.swap(0, 1);
        note.items[1].settled = Some(Settled::Seen);
        note.items[2].settled = Some(Settled::Gone);
        webhook.update(&note, &Sent(None)).unwrap();
        webhook.update(&note, &Sent(None)).unwrap();
        let (second, third) = (event(&server.next()), event(&server.next()));
        assert_eq!(
            (&second["question_id"], &second["settled"]),
            (&json!("q-a"), &json!("seen"))
        );
        assert_eq!(
            (&third["session"], &third["settled"]),
            (&json!("c"), &json!("gone"))
        );
        let ids = [&first["id"], &second["id"], &third["id"]];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert_eq!(server.requests.len(), 0);
    }

    #[test]
    fn an_adopted_message_repeats_nothing() {
        let server = good();
        let mut webhook = webhook(&server);
        let mut note = note("n1", vec![question("a"), question("b")]);
        note.items[0].settled = Some(Settled::Over);
        webhook.adopt(&note, &Sent(None));
        note.items[1].settled = Some(Settled::Over);
        webhook.update(&note, &Sent(None)).unwrap();
        assert_eq!(event(&server.next())["question_id"], "q-b");
        assert_eq!(server.requests.len(), 0);
    }

    #[test]
    fn an_event_that_fails_is_sent_again_with_its_id() {
        let status = AtomicU16::new(500);
        let act = move |_: &Recorded| {
            Act::Answer(
                status.swap(200, Ordering::SeqCst),
                String::new(),
                String::new(),
            )
        };
        let server = StandIn::start(act);
        let mut webhook = webhook(&server);
        assert!(matches!(
            webhook.output("a line"),
            Err(Unsent::Later(None, _))
        ));
        webhook.output("a line").unwrap();
        webhook.output("a line").unwrap();
        let events = [(); 3].map(|()| event(&server.next()));
        assert_eq!(events[0], events[1]);
        assert_ne!(events[1]["id"], events[2]["id"]);
        assert_eq!(events[2]["text"], "a line");
    }

    #[test]
    fn the_memory_of_events_is_bounded() {
        let server = good();
        let mut webhook = webhook(&server);
        for id in 0..RESOLVED_MAX + 10 {
            webhook.remember(&id.to_string());
        }
        assert_eq!(webhook.resolved.len(), RESOLVED_MAX);
        assert!(!webhook.resolved.contains(&"9".to_owned()));
    }
}
