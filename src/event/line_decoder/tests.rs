//! Every line is decoded as serde decodes it; lines written by this crate are decoded without serde.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseResult};
use serde_json::{Value, json};

use super::super::table::event_table;
use super::*;

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
    let row = (any::<u32>(), text()).prop_map(|(row, text)| json!({"row": row, "text": text}));
    let style = (any::<[u32; 3]>(), text()).prop_map(|([a, b, c], sgr)| json!([a, b, c, sgr]));
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
        "Styles" => vec(style, 0..4).prop_map(Value::from).boxed(),
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
                "i32" | "u32" | "u64" | "PaneId" | "String" | "Box<String" => {
                    value_of(inner.trim_end_matches('>').trim_start_matches("Box<"))
                }
                _ => texts.boxed(),
            },
            None => panic!("no values for fields of type {other}"),
        },
    }
}

fn is_optional(of: &str) -> bool {
    of.starts_with("Option<") || of == "Styles"
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
        let mut envelope = Envelope::new(Some(seq), crate::Timestamp::from_micros(micros), event);
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
