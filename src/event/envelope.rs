//! Envelopes: numbered, timestamped events, read and written with their unknown fields.

use std::fmt;

use serde::de::{self, IntoDeserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::borrowed_text::BorrowedText;
use super::td_event::TdEvent;
use crate::timestamp::Timestamp;

/// Reads an event and stores its unknown fields in the map.
struct EventSeed<'a>(&'a mut Map<String, Value>);

impl<'de> de::DeserializeSeed<'de> for EventSeed<'_> {
    type Value = TdEvent;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TdEvent, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for EventSeed<'_> {
    type Value = TdEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event: an object with a type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TdEvent, A::Error> {
        let Some(BorrowedText(first)) = map.next_key()? else {
            return Err(de::Error::missing_field("type"));
        };
        if first == "type" {
            let BorrowedText(type_name) = map.next_value()?;
            return TdEvent::read_fields(&type_name, map, self.0);
        }
        // The type is not the first field, so all fields are read before the event is built.
        let mut fields = Map::new();
        fields.insert(first.into_owned(), map.next_value()?);
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            fields.insert(key, value);
        }
        let type_name = match fields.remove("type") {
            Some(Value::String(name)) => name,
            _ => return Err(de::Error::missing_field("type")),
        };
        let fields = de::value::MapDeserializer::new(
            fields
                .into_iter()
                .map(|(key, value)| (key, value.into_deserializer())),
        );
        TdEvent::read_fields(&type_name, fields, self.0)
            .map_err(|error: serde_json::Error| de::Error::custom(error))
    }
}

impl<'de> Deserialize<'de> for TdEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventSeed(&mut Map::new()))
    }
}

impl Serialize for TdEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(serializer, &Map::new())
    }
}

/// Fields that this version does not know; they are kept and written back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownFields {
    /// Fields other than `seq`, `ts`, `n` and `event`.
    pub envelope: Map<String, Value>,
    /// Fields inside the event.
    pub event: Map<String, Value>,
}

/// A numbered and timestamped event, as it is delivered and stored.
///
/// ```
/// use td_observe::{Envelope, TdEvent};
/// let line = r#"{"seq":42,"ts":"2026-01-21T10:00:01.123456Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#;
/// let envelope: Envelope = serde_json::from_str(line).unwrap();
/// assert_eq!(envelope.seq, Some(42));
/// assert!(matches!(envelope.event, TdEvent::IterationStarted { iteration: 1, .. }));
/// assert_eq!(serde_json::to_string(&envelope).unwrap(), line);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The event's number in its run, from 1. `None` for events that are delivered live and never logged, and
    /// in logs written before events had numbers.
    pub seq: Option<u64>,
    /// The time of the emit call, in UTC.
    pub ts: Timestamp,
    /// The number of events that this one represents; more than 1 where a lossy lane merged text.
    pub n: u64,
    /// The event.
    pub event: TdEvent,
    /// Unknown fields, if any.
    pub extra: Option<Box<UnknownFields>>,
}

impl Envelope {
    /// Creates an envelope for one event.
    pub fn new(seq: Option<u64>, ts: Timestamp, event: TdEvent) -> Self {
        Self {
            seq,
            ts,
            n: 1,
            event,
            extra: None,
        }
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct EventWithExtra<'a>(&'a TdEvent, &'a Map<String, Value>);
        impl Serialize for EventWithExtra<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.write(serializer, self.1)
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("ts", &self.ts)?;
        if self.n != 1 {
            map.serialize_entry("n", &self.n)?;
        }
        match &self.extra {
            None => map.serialize_entry("event", &self.event)?,
            Some(extra) => {
                map.serialize_entry("event", &EventWithExtra(&self.event, &extra.event))?;
                for (key, value) in &extra.envelope {
                    map.serialize_entry(key, value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> de::Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an envelope: an object with ts and event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
                let (mut seq, mut ts, mut n, mut event) = (None, None, 1, None);
                let mut extra = UnknownFields::default();
                while let Some(BorrowedText(key)) = map.next_key()? {
                    match &*key {
                        // A duplicate is ambiguous, and readers that skip lines by their bytes see only the
                        // first.
                        "ts" if ts.is_some() => return Err(de::Error::duplicate_field("ts")),
                        "event" if event.is_some() => {
                            return Err(de::Error::duplicate_field("event"));
                        }
                        "seq" => seq = map.next_value()?,
                        "ts" => ts = Some(map.next_value()?),
                        "n" => n = map.next_value()?,
                        "event" => event = Some(map.next_value_seed(EventSeed(&mut extra.event))?),
                        _ => {
                            extra.envelope.insert(key.into_owned(), map.next_value()?);
                        }
                    }
                }
                let is_known = extra.envelope.is_empty() && extra.event.is_empty();
                Ok(Envelope {
                    seq,
                    ts: ts.ok_or_else(|| de::Error::missing_field("ts"))?,
                    n,
                    event: event.ok_or_else(|| de::Error::missing_field("event"))?,
                    extra: (!is_known).then(|| Box::new(extra)),
                })
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}
