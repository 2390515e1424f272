//! The conversations of rows, and when logs have their events (pure).

use std::collections::BTreeMap;

use crate::timestamp::Timestamp;

/// The time of an observation; one without an end goes on.
pub(super) type Interval = (Timestamp, Option<Timestamp>);

/// A conversation that a row has had, and the times in which the log has its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub file: String,
    pub agent: Option<String>,
    pub observed: Vec<Interval>,
}

impl Conversation {
    /// Returns the start of the last observation.
    fn last_found(&self) -> Option<Timestamp> {
        self.observed.last().map(|(from, _)| *from)
    }
}

/// Returns the conversations by their files: the row that had each last, its agent, and all times in which any log has
/// its events.
pub(super) fn by_file<'a>(
    rows: impl Iterator<Item = &'a [Conversation]>,
) -> BTreeMap<String, (usize, Conversation)> {
    let mut files: BTreeMap<String, (usize, Conversation)> = BTreeMap::new();
    for (place, conversations) in rows.enumerate() {
        for conversation in conversations {
            let known = files.get_mut(&conversation.file);
            let Some((owner, known)) = known else {
                let file = conversation.file.clone();
                files.insert(file, (place, conversation.clone()));
                continue;
            };
            if known.last_found() < conversation.last_found() {
                *owner = place;
                known.agent = conversation.agent.clone().or(known.agent.take());
            }
            known.observed.extend(&conversation.observed);
            known.observed.sort();
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_conversation_of_two_rows_belongs_to_the_last_one() {
        let of = |from: i64, until: Option<i64>| Conversation {
            file: "f".to_owned(),
            agent: None,
            observed: vec![(at(from), until.map(at))],
        };
        let rows = [vec![of(500, None)], vec![], vec![of(1, Some(9))]];
        let files = by_file(rows.iter().map(Vec::as_slice));
        let (owner, conversation) = &files["f"];
        assert_eq!(*owner, 0);
        assert_eq!(
            conversation.observed,
            [(at(1), Some(at(9))), (at(500), None)]
        );
    }
}
