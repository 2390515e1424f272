//! Reads what another host has written: lists up to their bounds, and a name that this version does not know as one that it
//! does (pure).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, IgnoredAny, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::text::Text;
use crate::board::ExecutionKind;
use crate::board::bands::{Band, BandSpan};
use crate::event::GapReason;
use crate::timestamp::Timestamp;

/// The most activities of a row, which are twice as many as a host keeps.
const SPANS_MAX: usize = 10_000;

/// The highest cost that is believed, in US dollars.
const COST_MAX: f64 = 1e9;

/// Reads a list up to its bound; the rest is passed over.
pub(super) fn bounded<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while items.len() < MAX {
                match list.next_element()? {
                    Some(item) => items.push(item),
                    None => return Ok(items),
                }
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(items)
        }
    }
    deserializer.deserialize_seq(Bounded::<T, MAX>(PhantomData))
}

/// Reads an id, or words, as a text.
pub(super) fn plain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|text| text.as_str().to_owned())
}

/// Reads a name; one that a later version has stands for the default.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let name = String::deserialize(deserializer)?;
    let value = T::deserialize(IntoDeserializer::<de::value::Error>::into_deserializer(
        name,
    ));
    Ok(value.unwrap_or_default())
}

/// Reads one of these names, or the last of them.
fn one_of<'de, D: Deserializer<'de>>(
    deserializer: D,
    names: &[&'static str],
) -> Result<&'static str, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = names.iter().find(|known| **known == name);
    Ok(known.or(names.last()).copied().unwrap_or_default())
}

pub(super) fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let names = ExecutionKind::ALL.map(ExecutionKind::as_str);
    let other = [ExecutionKind::Command.as_str()];
    one_of(deserializer, &[&names[..], &other].concat())
}

pub(super) fn gap_reason<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    let names = GapReason::ALL.map(|reason| reason.as_str());
    one_of(deserializer, &[&names[..], &["other"]].concat())
}

pub(super) fn outcome<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    const NAMES: [&str; 6] = [
        "validation_passed",
        "validation_failed",
        "max_turns_reached",
        "tool_error",
        "llm_error",
        "other",
    ];
    one_of(deserializer, &NAMES)
}

pub(super) fn run_state<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    const NAMES: [&str; 6] = [
        "running",
        "cut off",
        "completed",
        "failed",
        "detached",
        "unknown",
    ];
    one_of(deserializer, &NAMES)
}

pub(super) fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let cost = Option::<f64>::deserialize(deserializer)?;
    Ok(cost.filter(|cost| (0.0..COST_MAX).contains(cost)))
}

pub(super) fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BandSpan>, D::Error> {
    #[derive(Deserialize)]
    struct Span {
        #[serde(deserialize_with = "lenient")]
        state: Band,
        from: Timestamp,
        until: Timestamp,
    }
    let spans = bounded::<D, Span, SPANS_MAX>(deserializer)?;
    let spans = spans.into_iter().map(|span| BandSpan {
        band: span.state,
        from: span.from,
        until: span.until,
    });
    Ok(spans.collect())
}
