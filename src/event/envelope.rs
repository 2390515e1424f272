//! Envelopes: numbered, timestamped events, read and written with their unknown fields.

use std::fmt;

use serde::de::{self, IntoDeserializer, MapAccess};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

#[cfg(feature = "cli")]
use super::SCHEMA;
use super::json::{BorrowedText, Scan, ScanMemory};
use super::td_event::TdEvent;
use crate::timestamp::{Timestamp, TimestampParser};

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

// Events that appear only in streams: printed live, never logged (pure).

/// An event of a stream that belongs to no execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
#[cfg(feature = "cli")]
pub(crate) enum StreamEvent {
    /// The first line of a stream of envelopes in JSON.
    StreamOpened { schema: u32, version: String },
    /// A reader was too slow and missed events. The log contains them.
    Lagged { missed: u64 },
}

#[cfg(feature = "cli")]
impl StreamEvent {
    /// Returns the first event of a stream from this program.
    pub(crate) fn opened() -> Self {
        Self::StreamOpened {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns the event with its time.
    pub(crate) fn at(&self, ts: Timestamp) -> StreamEnvelope<'_> {
        StreamEnvelope {
            seq: None,
            ts,
            event: self,
        }
    }
}

/// An event of a stream with its time; it has no number.
#[cfg(feature = "cli")]
#[derive(Debug, Serialize)]
pub(crate) struct StreamEnvelope<'a> {
    seq: Option<u64>,
    ts: Timestamp,
    event: &'a StreamEvent,
}

/// Decodes lines with the same results as serde, and shares ids with earlier lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineDecoder {
    memory: ScanMemory,
    stamps: TimestampParser,
}

impl LineDecoder {
    /// Decodes a line, with or without its line feed.
    ///
    /// # Errors
    /// The error of serde, if the line is not an envelope.
    #[inline]
    pub(crate) fn decode(&mut self, line: &[u8]) -> Result<Envelope, serde_json::Error> {
        match simdutf8::basic::from_utf8(line) {
            Ok(text) => self.decode_text(text),
            Err(_) => serde_json::from_slice(line.trim_ascii_end()),
        }
    }

    /// Decodes a line that is known to be UTF-8.
    ///
    /// # Errors
    /// The same as [`LineDecoder::decode`].
    #[inline]
    pub(crate) fn decode_text(&mut self, line: &str) -> Result<Envelope, serde_json::Error> {
        let line = line.trim_ascii_end();
        match self.scan(line) {
            Some(envelope) => Ok(envelope),
            None => serde_json::from_str(line),
        }
    }

    /// Returns the envelope if the line has the format in which this crate writes it.
    #[inline]
    fn scan(&mut self, line: &str) -> Option<Envelope> {
        let mut scan = Scan::new(line, &mut self.memory);
        scan.skip(r#"{"seq":"#)?;
        let seq = scan.number()?;
        scan.skip(r#","ts":"#)?;
        let ts = self.stamps.parse(scan.plain_text()?)?;
        let n = match scan.skip(r#","n":"#) {
            Some(()) => scan.number()?,
            None => 1,
        };
        scan.skip(r#","event":{"type":"#)?;
        let type_name = scan.plain_text()?;
        let event = TdEvent::scan(type_name, &mut scan)?;
        scan.skip("}}")?;
        scan.end()?;
        Some(Envelope {
            seq: Some(seq),
            ts,
            n,
            event,
            extra: None,
        })
    }
}

#[cfg(test)]
mod tests {
    mod decoder {
        //! Every line is decoded as serde decodes it; lines written by this crate are decoded without serde.

        use super::super::*;
        use crate::event::table::event_table;
        use proptest::collection::vec;
        use proptest::prelude::*;
        use proptest::sample::{Index, select};
        use proptest::test_runner::{Config, TestCaseResult};
        use serde_json::{Value, json};

        macro_rules! list_events {
    ($(
        $(#[$doc:meta])*
        $variant:ident $method:ident $class:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident $(| $alias:literal)? : $type:ident $(<$name:ident $(<$inner:ident>)?>)? $(,)? $(;)?
            )*
        }
    )*) => {
        /// Every event of the table, with the names and types of its fields.
        const EVENTS: &[(&str, &[(&str, &str)])] = &[$(
            (stringify!($variant), &[$(
                (stringify!($field), stringify!($type $(<$name $(<$inner>)?>)?))
            ),*]),
        )*];
    };
}
        event_table!(list_events);

        fn text() -> impl Strategy<Value = String> {
            prop_oneof![
                3 => "[ -~\n]{0,40}",
                1 => "[\\x00-\\x7f\u{e9}界\u{1f980}\u{fffd}]{0,40}",
                1 => select(vec!["", "a", "exit", "cleared", "working", "stdout", "confirmed"])
                    .prop_map(str::to_owned),
            ]
        }

        fn whole(min: i64, max: i64) -> BoxedStrategy<Value> {
            prop_oneof![min..=max, select(vec![0, 1, min, max]),]
                .prop_map(Value::from)
                .boxed()
        }

        /// Returns values of a field, by the type that the table names.
        fn value_of(of: &str) -> BoxedStrategy<Value> {
            let texts = text().prop_map(Value::from);
            let row =
                (any::<u32>(), text()).prop_map(|(row, text)| json!({"row": row, "text": text}));
            let style =
                (any::<[u32; 3]>(), text()).prop_map(|([a, b, c], sgr)| json!([a, b, c, sgr]));
            match of {
                "bool" => any::<bool>().prop_map(Value::from).boxed(),
                "i32" => whole(i32::MIN.into(), i32::MAX.into()),
                "u32" => whole(0, u32::MAX.into()),
                "i64" => whole(i64::MIN, i64::MAX),
                "u64" | "usize" => prop_oneof![any::<u64>(), select(vec![0, u64::MAX])]
                    .prop_map(Value::from)
                    .boxed(),
                "String" | "PaneId" | "EndEvidence" | "Box<String>" => texts.boxed(),
                "Vec<PaneId>" => vec(texts, 0..4).prop_map(Value::from).boxed(),
                "Vec<ScreenRow>" => vec(row, 0..4).prop_map(Value::from).boxed(),
                "Vec<ReportedChild>" => vec(text(), 0..3)
                    .prop_map(|texts| {
                        let child =
                            |text: String| json!({"id": text, "state": "done", "asks": text});
                        texts.into_iter().map(child).collect()
                    })
                    .boxed(),
                "Styles" => vec(style, 0..4).prop_map(Value::from).boxed(),
                "Links" => vec((any::<i64>(), 0..9_u32, "[!-~]{0,9}"), 0..4)
                    .prop_map(|links| {
                        let link = |(line, start, path): (i64, u32, String)| {
                            let url = format!("https://{path}");
                            json!({"line": line, "start": start, "end": start + 1, "url": url})
                        };
                        links.into_iter().map(link).collect()
                    })
                    .boxed(),
                "Cursor" => any::<[u32; 2]>()
                    .prop_map(|[x, y]| json!({"x": x, "y": y}))
                    .boxed(),
                "IterationOutcome" => prop_oneof![
                    Just(json!("ValidationPassed")),
                    any::<i32>().prop_map(|code| json!({"ValidationFailed": {"exit_code": code}})),
                    text().prop_map(|error| json!({"LlmError": {"error": error}})),
                ]
                .boxed(),
                other => match other
                    .strip_prefix("Option<")
                    .or_else(|| other.strip_prefix("EnumOrUnknown<"))
                {
                    // The name of an enum inside an option.
                    Some(inner) => match inner.trim_end_matches('>') {
                        "bool" | "i32" | "u32" | "u64" | "PaneId" | "String" | "Box<String" => {
                            value_of(inner.trim_end_matches('>').trim_start_matches("Box<"))
                        }
                        "Timestamp" => (-60_000_000_000_000_000_i64..200_000_000_000_000_000)
                            .prop_map(|micros| json!(crate::Timestamp::from_micros(micros)))
                            .boxed(),
                        "Box<Dialogue" => text()
                            .prop_map(|text| {
                                let choice = json!({"key": "y", "label": text, "selected": true});
                                json!({"text": text, "choices": [choice]})
                            })
                            .boxed(),
                        "Vec<String" => vec(text(), 0..3).prop_map(|texts| json!(texts)).boxed(),
                        _ => texts.boxed(),
                    },
                    None => panic!("no values for fields of type {other}"),
                },
            }
        }

        fn is_optional(of: &str) -> bool {
            of.starts_with("Option<") || of == "Styles" || of == "Links"
        }

        /// Returns lines of any event of the table as serde writes them, with some of the optional fields.
        fn written_lines() -> impl Strategy<Value = Vec<u8>> {
            let event = select(EVENTS).prop_flat_map(|(name, fields)| {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(field, of)| {
                        let of = of.replace(' ', "");
                        let is_left_out = any::<bool>().prop_map({
                            let is_optional = is_optional(&of);
                            move |wanted| is_optional && wanted
                        });
                        (Just(*field), value_of(&of), is_left_out)
                    })
                    .collect();
                (Just(name), text(), fields)
            });
            let micros = prop_oneof![
                1_768_989_600_000_000_i64..1_768_989_603_000_000,
                -60_000_000_000_000_000_i64..200_000_000_000_000_000,
            ];
            let n = prop_oneof![4 => Just(1), 1 => any::<u64>()];
            (any::<u64>(), micros, n, event).prop_map(|(seq, micros, n, (name, id, fields))| {
                let mut json = format!(r#"{{"type":"{name}","execution_id":{}"#, json!(id));
                for (field, value, is_left_out) in fields {
                    if !is_left_out {
                        json += &format!(r#","{field}":{value}"#);
                    }
                }
                json += "}";
                let event = serde_json::from_str(&json).unwrap();
                let mut envelope =
                    Envelope::new(Some(seq), crate::Timestamp::from_micros(micros), event);
                envelope.n = n;
                serde_json::to_vec(&envelope).unwrap()
            })
        }

        #[track_caller]
        fn decodes_as_serde(decoder: &mut LineDecoder, line: &[u8]) -> TestCaseResult {
            let by_serde = serde_json::from_slice::<Envelope>(line.trim_ascii_end());
            let decoded = decoder.decode(line);
            match (decoded, by_serde) {
                (Ok(decoded), Ok(by_serde)) => prop_assert_eq!(decoded, by_serde),
                (Err(ours), Err(theirs)) => prop_assert_eq!(ours.to_string(), theirs.to_string()),
                (ours, theirs) => prop_assert!(false, "{:?}\n{:?}", ours, theirs),
            }
            Ok(())
        }

        /// Pieces of JSON that change a line without making it invalid everywhere.
        const PIECES: &[&str] = &[
            " ",
            "\t",
            ",",
            ":",
            "\"",
            "\\",
            "\\u00e9",
            "\\ud83e\\udd80",
            "\\ud800",
            "\\/",
            "\\x",
            "\n",
            "-",
            "0",
            "00",
            "1e3",
            "1.5",
            "-0",
            "null",
            "true",
            "{}",
            "[]",
            "[1,{\"a\":[]}]",
            "}",
            "]",
            "\"mood\":\"good\",",
            "\"type\":\"Unheard\",",
            "\"execution_id\":\"b\",",
            "\"n\":2,",
            "\"seq\":null,",
            "\"seq\":18446744073709551616,",
            "\"ts\":\"2026-01-21T10:00:60.5Z\",",
            "\"ts\":\"2026-01-21T23:59:60.000001Z\",",
            "\"task\":\"x\",",
            "\"pane\":null,",
            "\u{e9}",
        ];

        proptest! {
            #![proptest_config(Config { cases: 3000, failure_persistence: None, ..Config::default() })]

            #[test]
            fn written_lines_are_decoded_without_serde(lines in vec(written_lines(), 1..4)) {
                let mut decoder = LineDecoder::default();
                for line in lines {
                    let by_serde = serde_json::from_slice::<Envelope>(&line).unwrap();
                    let text = String::from_utf8_lossy(&line).into_owned();
                    // An id with an escape is rare.
                    let id = by_serde.event.execution_id();
                    let ids = [id, by_serde.event.pane().map_or("", |pane| pane)];
                    let is_plain = !ids.iter().any(|id| id.contains(['"', '\\']) || id.contains(char::is_control));
                    let is_of_our_years = by_serde.ts.to_string().len() == "2026-01-21T10:00:01.123456Z".len();
                    let panes = text.contains(r#""panes":["#);
                    if is_plain && is_of_our_years && !panes {
                        prop_assert_eq!(decoder.scan(&text), Some(by_serde), "{}", text);
                    }
                    decodes_as_serde(&mut decoder, &line)?;
                }
            }

            #[test]
            fn changed_lines_are_decoded_as_by_serde(
                lines in vec((written_lines(), vec((any::<Index>(), any::<Index>(), 0..4_u8), 0..4)), 1..4),
            ) {
                let mut decoder = LineDecoder::default();
                for (mut line, changes) in lines {
                    for (at, what, kind) in changes {
                        // Mostly between two values, where a piece may be valid.
                        let borders: Vec<usize> = (0..=line.len())
                            .filter(|&at| kind == 0 || at == 0 || matches!(line[at - 1], b'{' | b',' | b':' | b'"'))
                            .collect();
                        let at = *at.get(&borders);
                        match kind {
                            0 if at < line.len() => line[at] = what.index(256) as u8,
                            1 => { line.splice(at..at, what.get(PIECES).bytes()); }
                            2 => { line.drain(at..(at + what.index(9)).min(line.len())); }
                            3 if what.index(8) == 0 => line.truncate(at),
                            _ => { line.splice(at..at, what.get(PIECES).bytes()); }
                        }
                        decodes_as_serde(&mut decoder, &line)?;
                    }
                }
            }

            #[test]
            fn fields_in_any_order_are_decoded_as_by_serde(
                line in written_lines(), order in any::<u64>(), unknown in any::<bool>(), pretty in any::<bool>(),
            ) {
                let shuffled = |value: &Value| {
                    let mut fields: Vec<(String, Value)> = value.as_object().unwrap().clone().into_iter().collect();
                    if unknown {
                        fields.push(("later".to_owned(), json!([1, {"a": null}])));
                    }
                    fields.sort_by_key(|(name, _)| name.bytes().fold(order, |sum, byte| {
                        (sum ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    }));
                    let fields = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name)));
                    fields.collect::<Vec<_>>().join(if pretty { " , " } else { "," })
                };
                let mut value: Value = serde_json::from_slice(&line).unwrap();
                let event = value.as_object_mut().unwrap().remove("event").unwrap();
                let line = format!(r#"{{{},"event":{{{}}}}}"#, shuffled(&value), shuffled(&event));
                decodes_as_serde(&mut LineDecoder::default(), line.as_bytes())?;
            }

            #[test]
            fn any_bytes_are_decoded_as_by_serde(bytes in any::<Vec<u8>>()) {
                decodes_as_serde(&mut LineDecoder::default(), &bytes)?;
            }
        }
    }
}
