//! Lines of older and newer versions, and lines that no version writes.

use super::*;

#[test]
fn a_line_reads_as_documented() {
    let event = TdEvent::iteration_started("abc123", 1);
    assert_eq!(
        line_of(Some(42), &event),
        r#"{"seq":42,"ts":"2026-01-21T10:00:01.123456Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#
    );
    // An event that is only shown live has `null` as its number.
    assert!(line_of(None, &event).starts_with(r#"{"seq":null,"ts":""#));
    let mut merged = read(&line_of(Some(42), &event));
    merged.n = 3;
    let merged = serde_json::to_string(&merged).unwrap();
    assert!(merged.contains(r#","n":3,"event":"#), "{merged}");
    assert_eq!(read(&merged).n, 3);
}

#[test]
fn outcomes_are_written_as_serde_writes_the_enum() {
    let written: Vec<String> = samples(EventKind::IterationCompleted)
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["outcome"].to_string())
        .collect();
    assert_eq!(
        written,
        [
            r#""ValidationPassed""#,
            r#"{"ValidationFailed":{"exit_code":-2147483648}}"#,
            r#""MaxTurnsReached""#,
            r#"{"ToolError":{"error":"no","tool":"bash"}}"#,
            r#"{"LlmError":{"error":"529"}}"#,
        ]
    );
}

#[test]
fn absent_fields_are_omitted_and_null_reads_as_absent() {
    for event in all_samples() {
        let value = serde_json::to_value(&event).unwrap();
        let fields = value.as_object().unwrap();
        assert!(fields.values().all(|field| !field.is_null()), "{value}");
    }
    let gap = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "event": {
        "type": "OutputGap", "execution_id": "a", "pane": "%1", "first_line": 1,
        "lost_lines": null, "reason": "ambiguous", "evidence": "possible"}});
    let mut expected = gap.clone();
    expected["event"]
        .as_object_mut()
        .unwrap()
        .remove("lost_lines");
    assert_eq!(through(&gap), expected);
}

#[test]
fn a_missing_required_field_is_an_error() {
    for event in all_samples() {
        let whole = serde_json::to_value(&event).unwrap();
        for name in whole.as_object().unwrap().keys() {
            let mut part = whole.clone();
            part.as_object_mut().unwrap().remove(name);
            let declared = serde_json::from_value::<Wire>(part.clone()).is_ok();
            let read = serde_json::from_value::<TdEvent>(part.clone()).is_ok();
            assert_eq!(read, declared, "without {name}: {part}");
        }
    }
}

#[test]
fn additions_of_a_newer_version_survive() {
    for event in all_samples() {
        let mut line: Value = serde_json::from_str(&line_of(Some(u64::MAX), &event)).unwrap();
        line["added"] = json!({"deep": [1, -1, 1.5, null, true, "x", {}], "max": u64::MAX});
        line["event"]["also_added"] = json!([i64::MIN, "ü\n\u{1b}", 0.1, 1e300]);
        assert_eq!(through(&line), line);
        // Two rounds, and through the reader of log lines, which takes bytes.
        let again = parse_line(through(&line).to_string().as_bytes()).unwrap();
        assert_eq!(again.event, event);
        assert_eq!(serde_json::to_value(again).unwrap(), line);
    }
    let unknown = json!({"seq": 5, "ts": "2026-01-21T10:00:01.000000Z", "more": 1, "event": {
        "type": "NotYetThoughtOf", "execution_id": "a", "what": {"ever": [null, 2.5]}}});
    assert_eq!(through(&unknown), unknown);
    let envelope = read(&unknown.to_string());
    assert_eq!(envelope.event.kind(), EventKind::Unknown);
    assert_eq!(envelope.event.type_name(), "NotYetThoughtOf");
    assert_eq!(envelope.event.execution_id(), "a");
    // `Unknown` is no type of the wire, but a newer version may use it.
    let unknown =
        json!({"seq": 5, "ts": "2026-01-21T10:00:01.000000Z", "event": {"type": "Unknown"}});
    assert_eq!(through(&unknown), unknown);
}

#[test]
fn values_of_a_newer_version_survive() {
    let mut seen = 0;
    for event in all_samples() {
        let line: Value = serde_json::from_str(&line_of(Some(1), &event)).unwrap();
        for field in ["reason", "evidence", "state", "source", "stream"] {
            let mut later = line.clone();
            if let Some(value) = later["event"].get_mut(field) {
                *value = "not_yet_thought_of".into();
                assert_eq!(through(&later), later);
                assert_eq!(read(&later.to_string()).event.kind(), event.kind());
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn the_type_may_be_at_any_position() {
    for event in all_samples() {
        let Value::Object(fields) = serde_json::to_value(&event).unwrap() else {
            unreachable!()
        };
        let mut parts: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}:{value}", json!(name)))
            .collect();
        for _ in 0..parts.len() {
            parts.rotate_left(1);
            let text = format!("{{{}}}", parts.join(","));
            let read: TdEvent = serde_json::from_str(&text).unwrap();
            assert_eq!(read, event, "{text}");
        }
    }
}

#[test]
fn lines_of_the_seed_are_read() {
    // Copied from the design document of the event bus, "Event Log Format".
    let log = r#"
{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}
{"ts":"2026-01-21T10:00:02Z","event":{"type":"PromptSent","execution_id":"abc123","iteration":1,"prompt_summary":"Implement OAuth...","token_count":1500}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"TokenReceived","execution_id":"abc123","iteration":1,"token":"I'll"}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"TokenReceived","execution_id":"abc123","iteration":1,"token":" implement"}}
"#;
    let lines: Vec<Envelope> = log.trim().lines().map(read).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert_eq!((line.seq, line.n, &line.extra), (None, 1, &None));
        assert_eq!(line.event.execution_id(), "abc123");
        assert_ne!(line.event.kind(), EventKind::Unknown);
    }
    let ts = serde_json::to_value(lines[1].ts).unwrap();
    assert_eq!(ts, "2026-01-21T10:00:01.000000Z");
    let TdEvent::LoopStarted {
        task_description, ..
    } = &lines[0].event
    else {
        panic!("{:?}", lines[0])
    };
    assert_eq!(task_description, "Add auth");
    // It is written with the seed's type name.
    let written = serde_json::to_value(&lines[0]).unwrap();
    assert_eq!(written["event"]["task_description"], "Add auth");
    assert_eq!(written["event"].get("task"), None);
}

#[test]
fn numbers_beyond_their_type_are_refused() {
    let base = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "event": {
        "type": "OutputRevised", "execution_id": "a", "pane": "%1", "line": 1, "text": ""}});
    let with = |place: &str, number: &str| {
        let mut line = base.clone();
        *line.pointer_mut(place).unwrap() = json!("NUMBER");
        serde_json::from_str::<Envelope>(&line.to_string().replace("\"NUMBER\"", number))
    };
    assert_eq!(
        with("/seq", "18446744073709551615").unwrap().seq,
        Some(u64::MAX)
    );
    assert!(with("/event/line", "-9223372036854775808").is_ok());
    for (place, number) in [
        ("/seq", "18446744073709551616"),
        ("/seq", "-1"),
        ("/seq", "1.5"),
        ("/event/line", "9223372036854775808"),
        ("/event/line", "1e3"),
        ("/event/line", "\"1\""),
        ("/ts", "0"),
        ("/ts", "\"2026-13-21T10:00:01Z\""),
        ("/event", "[]"),
        ("/event/execution_id", "null"),
    ] {
        assert!(with(place, number).is_err(), "{place} = {number}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "2026-01-21T10:0[0-9]:00(\\.[0-9]{0,7})?Z".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 8, |inner| {
        let key = prop_oneof![
            "(seq|ts|n|event|type|execution_id|iteration|pane|task|rows|outcome)",
            any::<String>()
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Checks that reading any text does not panic, and that a value that was read once is written and read
/// the same way again.
fn is_stable(text: &str) {
    if let Ok(envelope) = serde_json::from_str::<Envelope>(text) {
        let written = serde_json::to_string(&envelope).unwrap();
        assert_eq!(read(&written), envelope, "{text}");
    }
    if let Ok(event) = serde_json::from_str::<TdEvent>(text) {
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(
            serde_json::from_str::<TdEvent>(&written).unwrap(),
            event,
            "{text}"
        );
    }
    let _ = parse_line(text.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_field_survives(text in any::<String>(), at in any::<prop::sample::Index>()) {
        let events: Vec<TdEvent> = all_samples().collect();
        let mut value = serde_json::to_value(at.get(&events)).unwrap();
        let is_gap = value["type"] == "OutputGap";
        for (name, field) in value.as_object_mut().unwrap() {
            let is_choice = matches!(&**name, "type" | "outcome") || is_gap && name == "evidence";
            let is_time = matches!(&**name, "turn_began" | "turn_ended" | "acted");
            if field.is_string() && !is_choice && !is_time {
                *field = text.as_str().into();
            }
        }
        let event: TdEvent = serde_json::from_value(value.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(event).unwrap(), value);
    }

    #[test]
    fn any_number_survives_unread(number in any::<f64>().prop_filter("JSON has none", |f| f.is_finite())) {
        let line = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "extra": number,
            "event": {"type": "New", "value": number}});
        prop_assert_eq!(through(&line), line);
    }

    #[test]
    fn garbage_does_not_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        is_stable(&text);
        let _ = parse_line(&bytes);
    }

    #[test]
    fn any_json_does_not_panic(value in any_json(), event in any_json(), at in any::<prop::sample::Index>()) {
        is_stable(&value.to_string());
        // Near misses: a real event with one field of another type.
        let events: Vec<TdEvent> = all_samples().collect();
        let mut near: Value = serde_json::from_str(&line_of(Some(1), at.get(&events))).unwrap();
        let fields = near["event"].as_object_mut().unwrap();
        let name = at.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
        fields.insert(name, event.clone());
        is_stable(&near.to_string());
        near["event"] = event;
        is_stable(&near.to_string());
    }

    #[test]
    fn torn_lines_do_not_panic(at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
        let events: Vec<TdEvent> = all_samples().collect();
        let line = line_of(Some(1), at.get(&events));
        let torn = &line.as_bytes()[..cut.index(line.len())];
        prop_assert!(parse_line(torn).is_err());
    }
}
